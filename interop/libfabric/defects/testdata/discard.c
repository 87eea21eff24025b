/* A message that was sent with FI_DELIVERY_COMPLETE is found by FI_PEEK and discarded. Its send is to complete: it never does. */
#include "open.h"

int main(void)
{
	static char from[8];
	struct fi_context2 sent, peek;
	struct fi_msg_tagged send = {.msg_iov = &(struct iovec){from, sizeof from}, .iov_count = 1, .addr = self, .tag = 1, .context = &sent};
	struct fi_msg_tagged look = {.addr = self, .tag = 1, .context = &peek};
	int sends = 0;
	open_endpoint("0");
	send.addr = look.addr = self;
	exchange(); /* afterwards each side knows that the other one sends receipts */
	AGAIN(fi_tsendmsg(ep, &send, FI_DELIVERY_COMPLETE));
	do { /* until the message has come */
		AGAIN(fi_trecvmsg(ep, &look, FI_PEEK | FI_DISCARD));
	} while (!next());
	for (int i = 0; i < 100; i++)
		sends += exchange_seeing(&sent);
	return sends > 0 ? 0 : defect("the send has not completed after 100 later messages");
}
