/* A compare-and-swap of two numbers in two pieces of remote memory: the second compares with the wrong operand. */
#include "open.h"

int main(void)
{
	static uint64_t memory[3] = {1, 0, 2}, compare[2] = {1, 2}, swap[2] = {10, 20}, old[2];
	struct fid_mr *mr;
	open_endpoint("0");
	MUST(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	struct fi_rma_ioc pieces[2] = {{(uint64_t)&memory[0], 1, fi_mr_key(mr)}, {(uint64_t)&memory[2], 1, fi_mr_key(mr)}};
	void *none[2] = {NULL, NULL};
	struct fi_msg_atomic msg = {.desc = none, .msg_iov = &(struct fi_ioc){swap, 2}, .iov_count = 1, .addr = self, .rma_iov = pieces,
		.rma_iov_count = 2, .datatype = FI_UINT64, .op = FI_CSWAP};
	AGAIN(fi_compare_atomicmsg(ep, &msg, &(struct fi_ioc){compare, 2}, none, 1, &(struct fi_ioc){old, 2}, none, 1, FI_COMPLETION));
	if (!next())
		return defect("error %d, %s", error.err, fi_strerror(error.err));
	return memory[0] == 10 && memory[2] == 20 && old[0] == 1 && old[1] == 2 ? 0
		: defect("memory %lu and %lu, before %lu and %lu", memory[0], memory[2], old[0], old[1]);
}
