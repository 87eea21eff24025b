// A sender that the receiver doesn't know: the completion shows its address, from
// which the receiver makes a handle and answers.
#include "talk.h"

// received waits for one receive completion and prints its sender.
static void received(struct end *e, uint16_t *slid, uint32_t *qpn, union ibv_gid *gid, bool *known)
{
	struct ibv_poll_cq_attr attr = {};
	int got = ENOENT;
	until(got != ENOENT, got = ibv_start_poll(e->cq_ex, &attr));
	must(!got && e->cq_ex->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(e->cq_ex) == IBV_WC_RECV);
	*slid = (uint16_t)ibv_wc_read_slid(e->cq_ex);
	*qpn = ibv_wc_read_src_qp(e->cq_ex);
	*known = efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(e->cq_ex), gid) == -ENOENT;
	ibv_end_poll(e->cq_ex);
}

static void caller(int fd)
{
	struct device d = open_device();
	struct end *e = open_end(&d, (struct options){.rnr_retry = 7});
	struct card other = exchange_cards(fd, e);
	struct target to = aim_at(e, &other);
	step("%s address", memcmp(&other.gid, &d.gid, sizeof(d.gid)) ? "another" : "the same");
	for (int i = 0; i < 2; i++) {
		post_recv(e, 1, 0, 100);
		post_bytes(e, &to, 2, 0, 100);
		good(e->cq);
		good(e->cq);
		step(i ? "answered again" : "answered by who didn't know this side");
		meet(fd);
	}
	unaim(&to);
	close_end(e);
	close_device(&d);
	step("close");
}

static void listener(int fd)
{
	struct device d = open_device();
	struct end *e = open_end(&d, (struct options){.sgid = true, .rnr_retry = 7});
	struct card other = exchange_cards(fd, e);
	uint16_t slid;
	uint32_t qpn;
	union ibv_gid gid;
	bool known;
	post_recv(e, 1, 0, 100);
	received(e, &slid, &qpn, &gid, &known);
	must(slid == 0xffff && !known && qpn == other.qpn && !memcmp(&gid, &other.gid, sizeof(gid)));
	struct target to = {create_ah(e->pd, gid), qpn, QKEY};
	must(to.ah);
	post_bytes(e, &to, 2, 0, 50);
	good(e->cq);
	meet(fd);

	post_recv(e, 1, 0, 100);
	received(e, &slid, &qpn, &gid, &known);
	struct efadv_ah_attr attr;
	must(!efadv_query_ah(to.ah, &attr, sizeof(attr)));
	must(known && slid == attr.ahn && qpn == other.qpn, ": %#x, not %#x", slid, attr.ahn);
	post_bytes(e, &to, 2, 0, 50);
	good(e->cq);
	meet(fd);
	unaim(&to);
	close_end(e);
	close_device(&d);
}

int main(int argc, char **argv)
{
	begin();
	play(argc, argv, caller, listener);
	return 0;
}
