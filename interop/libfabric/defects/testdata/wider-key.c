/* A part of memory that is registered, for the process itself alone, is registered for writes of others. The key that they get is
 * good for all of it: the registration cache takes the region that there is. */
#include "open.h"

int main(void)
{
	static char from[64] = "overwritten", to[4096];
	struct fid_mr *whole, *part;
	open_endpoint("0");
	MUST(fi_mr_reg(domain, to, sizeof to, FI_RECV, 0, 0, 0, &whole, NULL));
	MUST(fi_mr_reg(domain, to + 2048, 64, FI_REMOTE_WRITE, 0, 0, 0, &part, NULL));
	AGAIN(fi_write(ep, from, sizeof from, NULL, self, (uint64_t)to, fi_mr_key(part), NULL));
	next(), exchange();
	return to[0] == 0 ? 0 : defect("memory beside the region is %s", to);
}
