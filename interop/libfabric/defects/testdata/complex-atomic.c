/* fi_atomicvalid says that there are no atomics on complex numbers. fi_atomic takes one, and the target crashes. */
#include "open.h"

int main(void)
{
	static double complex one = 1, sum;
	struct fid_mr *mr;
	size_t count = 0;
	open_endpoint("0");
	if (fi_atomicvalid(ep, FI_DOUBLE_COMPLEX, FI_SUM, &count) == 0)
		return 0;
	MUST(fi_mr_reg(domain, &sum, sizeof sum, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	if (fi_atomic(ep, &one, 1, NULL, self, (uint64_t)&sum, fi_mr_key(mr), FI_DOUBLE_COMPLEX, FI_SUM, NULL) != 0)
		return 0;
	next();
	exchange();
	return defect("the sum is %g", creal(sum));
}
