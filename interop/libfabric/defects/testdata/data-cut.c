/* The provider says that remote CQ data has 8 bytes (cq_data_size): tagged sends carry the low 4. */
#include "open.h"

int main(void)
{
	static char from[8], to[8];
	struct fi_context2 sent, received;
	const uint64_t data = 0x1122334455667788;
	open_endpoint("0");
	AGAIN(fi_trecv(ep, to, sizeof to, NULL, self, 1, 0, &received));
	AGAIN(fi_tsenddata(ep, from, sizeof from, NULL, data, self, 1, &sent));
	while (next() && entry.op_context != &received)
		;
	return entry.data == data || info->domain_attr->cq_data_size < 8 ? 0 : defect("data is %#lx", entry.data);
}
