/* A region may be read by others, no more. A write to it, carried by packets, is to be refused: it is carried out. */
#include "open.h"

int main(void)
{
	static char from[64] = "overwritten", to[64];
	struct fid_mr *mr;
	open_endpoint("0");
	MUST(fi_mr_reg(domain, to, sizeof to, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	AGAIN(fi_write(ep, from, sizeof from, NULL, self, (uint64_t)to, fi_mr_key(mr), NULL));
	next(), exchange();
	return to[0] == 0 ? 0 : defect("memory that may only be read is %s", to);
}
