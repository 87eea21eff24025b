// Datagrams (UD) are sent without acknowledgement: one for which no receive is posted, or
// with a wrong key or number, is lost without an error at its sender.
#include "ends.h"

static struct end *a, *b;
static struct target to_b;
static const uint32_t room = 40; // in front of a datagram

static void lost(const char *what, struct target t, bool receive)
{
	if (receive)
		post_recv(b, 1, 0, room + 100);
	post_bytes(a, &t, 2, 0, 100);
	good(a->cq);
	quiet(b->cq, 0.02);
	if (!receive)
		post_recv(b, 1, 0, room + 100);
	quiet(b->cq, 0.02);
	post_bytes(a, &to_b, 3, 0, 100);
	good(a->cq);
	struct ibv_wc wc = good(b->cq);
	must(wc.wr_id == 1 && wc.byte_len == room + 100);
	step("%s", what);
}

int main(void)
{
	begin();
	struct device d = open_device();
	a = open_end(&d, (struct options){.type = IBV_QPT_UD});
	b = open_end(&d, (struct options){.type = IBV_QPT_UD});
	to_b = aim(a, b);
	lost("no receive", to_b, false);
	struct target t = to_b;
	t.qkey ^= 1;
	lost("another qkey", t, true);
	t = to_b;
	t.qpn ^= 0x4000;
	lost("a queue pair that never was", t, true);
	unaim(&to_b);
	close_end(a);
	close_end(b);
	close_device(&d);
	step("close");
	return 0;
}
