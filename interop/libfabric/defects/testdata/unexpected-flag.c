/* The completion of a message with data that came before its receive is to have FI_REMOTE_CQ_DATA: it has not. */
#include "open.h"

int main(void)
{
	static char from[8], to[8];
	struct fi_context2 sent, received;
	open_endpoint("0");
	AGAIN(fi_tsenddata(ep, from, sizeof from, NULL, 42, self, 1, &sent));
	exchange_seeing(&sent); /* in order, so the message has come */
	AGAIN(fi_trecv(ep, to, sizeof to, NULL, self, 1, 0, &received));
	while (next() && entry.op_context != &received)
		;
	return entry.flags & FI_REMOTE_CQ_DATA ? 0 : defect("flags %#lx, data %lu", entry.flags, entry.data);
}
