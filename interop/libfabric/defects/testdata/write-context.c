/* The completion at the target of a write with data has no operation, so its context is to be NULL: it is an older receive's. */
#include "open.h"

int main(void)
{
	static char from[8], to[8];
	struct fi_context2 written;
	struct fid_mr *mr;
	open_endpoint("0");
	MUST(fi_mr_reg(domain, to, sizeof to, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	for (int i = 0; i < 4; i++)
		exchange();
	AGAIN(fi_writedata(ep, from, sizeof from, NULL, 42, self, (uint64_t)to, fi_mr_key(mr), &written));
	while (next() && !(entry.flags & FI_REMOTE_WRITE))
		;
	return entry.op_context == NULL ? 0 : defect("context %p, tag %lu", entry.op_context, entry.tag);
}
