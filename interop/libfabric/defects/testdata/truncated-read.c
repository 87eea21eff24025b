/* A message that is read by the receiver's device comes to too small a buffer. The receive is to fail with FI_ETRUNC and the
 * length of the message, and the send is to complete: there is no length, and the send never completes, or the process crashes. */
#include "open.h"

int main(void)
{
	static char from[2 << 20], to[1 << 20];
	struct fid_mr *mr;
	struct fi_context2 sent, received;
	int sends = 0;
	open_endpoint("1");
	MUST(fi_mr_reg(domain, from, sizeof from, FI_SEND, 0, 0, 0, &mr, NULL));
	exchange(); /* afterwards each side knows that the other one reads */
	AGAIN(fi_trecv(ep, to, sizeof to, NULL, self, 1, 0, &received));
	AGAIN(fi_tsend(ep, from, sizeof from, fi_mr_desc(mr), self, 1, &sent));
	while (next() || error.op_context != &received)
		sends += entry.op_context == &sent;
	if (error.err != FI_ETRUNC || error.olen != sizeof from - sizeof to)
		return defect("error %d, code %d, length %zu, lost %zu", error.err, error.prov_errno, error.len, error.olen);
	for (int i = 0; i < 100; i++)
		sends += exchange_seeing(&sent);
	return sends > 0 ? 0 : defect("the send has not completed after 100 later messages");
}
