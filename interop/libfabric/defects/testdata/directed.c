/* Receives from a sender, from anyone and from another sender are posted. The first message is to complete the one from anyone.
 * It ends with an error that has no context. */
#include "open.h"

int main(void)
{
	static char from[8], to[3][8];
	struct fi_context2 sent, received[3];
	open_endpoint("0");
	fi_addr_t whom[3] = {silent, FI_ADDR_UNSPEC, self};
	for (int i = 0; i < 3; i++)
		AGAIN(fi_recv(ep, to[i], 8, NULL, whom[i], &received[i]));
	for (int i = 1; i < 3; i++) {
		AGAIN(fi_send(ep, from, 8, NULL, self, &sent));
		for (int mine = 0; mine < 2; mine++)
			if (!next())
				return defect("error %d (%s), context %p", error.err, fi_strerror(error.err), error.op_context);
			else if (entry.op_context != &sent && entry.op_context != &received[i])
				return defect("receive %ld completed", (struct fi_context2 *)entry.op_context - received);
	}
	return 0;
}
