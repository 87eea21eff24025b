/* A read of 0 bytes, where the device reads, is to complete: the process crashes in fi_read. */
#include "open.h"

int main(void)
{
	static char from[64], to[64];
	struct fid_mr *mr;
	open_endpoint("1");
	MUST(fi_mr_reg(domain, from, sizeof from, FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	AGAIN(fi_read(ep, to, 0, NULL, self, (uint64_t)from, fi_mr_key(mr), NULL));
	return next() ? 0 : defect("error %d, %s", error.err, fi_strerror(error.err));
}
