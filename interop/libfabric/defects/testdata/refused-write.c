/* A write that packets carry, beyond the end of a region, is to be refused: the target crashes. */
#include "open.h"

int main(void)
{
	static char from[64], to[64];
	struct fid_mr *mr;
	struct fi_context2 written;
	open_endpoint("0");
	MUST(fi_mr_reg(domain, to, sizeof to, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	exchange(); /* libfabric 1.17 reads in what it has used before */
	AGAIN(fi_write(ep, from, sizeof from, NULL, self, (uint64_t)(to + sizeof to), fi_mr_key(mr), &written));
	next();
	exchange();
	return 0;
}
