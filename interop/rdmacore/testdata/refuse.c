// Requests that end with an error: its status is right, the receiver's next
// message arrives, and the queue pair stays usable.
#include "ends.h"

static struct end *a, *b;
static struct target to_b;

// works checks that both ends are well.
static void works(void)
{
	post_recv(b, 1, 0, 100);
	post_bytes(a, &to_b, 2, 0, 100);
	good(a->cq);
	must(good(b->cq).byte_len == 100);
}

static void ends(const char *what, const struct target *t, struct message m)
{
	m.id = 77;
	must(!post(a, t, &m));
	struct ibv_wc wc = next(a->cq);
	must(wc.wr_id == 77);
	quiet(b->cq, 0.002);
	works();
	step("%s: %u, %s", what, wc.vendor_err, ibv_wc_status_str(wc.status));
}

static void local(void)
{
	struct message bad = {.bytes = {100}, .pieces = 1};
	bad.lkey = a->mr->lkey ^ 0x5a5a5a;
	ends("a key that names nothing", &to_b, bad);
	bad.lkey = b->mr->lkey;
	ends("a key of another domain", &to_b, bad);
	bad = (struct message){.at = {a->bytes - 50}, .bytes = {100}, .pieces = 1};
	ends("beyond the end of the region", &to_b, bad);
	bad = (struct message){.at = {-8ul}, .bytes = {8}, .pieces = 1};
	ends("before its begin", &to_b, bad);
	bad = (struct message){.at = {0, a->bytes}, .bytes = {50, 50}, .pieces = 2};
	ends("with the second piece", &to_b, bad);
	struct ibv_mr *mr = ibv_reg_mr(a->pd, a->memory, a->bytes, 0);
	must(mr);
	bad = (struct message){.bytes = {100}, .pieces = 1, .lkey = mr->lkey};
	post_recv(b, 1, 0, 100);
	must(!post(a, &to_b, &bad));
	good(a->cq);
	good(b->cq);
	step("a region without rights: may be sent from");
	must(!ibv_dereg_mr(mr));
	ends("a region that is closed", &to_b, bad);
	bad = (struct message){.bytes = {a->device->mtu, 1}, .at = {0, 0}, .pieces = 2};
	ends("longer than the mtu", &to_b, bad);
}

static void remote(void)
{
	struct message m = {.bytes = {100}, .pieces = 1};
	struct target t = to_b;
	t.qpn ^= 0x4000;
	ends("a queue pair that never was", &t, m);
	struct end *c = open_end(a->device, (struct options){});
	t = aim(a, c);
	must(!modify(c->qp, IBV_QPS_ERR, 0, 0));
	ends("a queue pair in error", &t, m);
	unaim(&t);
	close_end(c);
	union ibv_gid gid = a->device->gid;
	gid.raw[8] ^= 0x80;
	t = (struct target){create_ah(a->pd, gid), b->qp->qp_num, QKEY};
	must(t.ah);
	ends("an address where nobody is", &t, m);
	unaim(&t);
}

// short_buffer sends more than the receive has room for. On EFA the sender is told
// (11); the emulator's fabric has the packet delivered then, and tells the receiver.
static void short_buffer(void)
{
	post_recv(b, 5, 0, 99);
	post_bytes(a, &to_b, 6, 0, 100);
	struct ibv_wc wc = next(a->cq);
	if (wc.status == IBV_WC_SUCCESS) {
		wc = next(b->cq);
		must(wc.wr_id == 5 && wc.status != IBV_WC_SUCCESS);
	}
	step("a receive that is too short: %u, %s", wc.vendor_err, ibv_wc_status_str(wc.status));
	post_recv(b, 1, 0, 100);
	post_bytes(a, &to_b, 2, 0, 90);
	good(a->cq);
	must(good(b->cq).byte_len == 90);
}

// qkey sends with a wrong one: nothing arrives, whatever the sender is told.
static void qkey(void)
{
	struct target t = to_b;
	t.qkey ^= 1;
	post_recv(b, 1, 0, 100);
	post_bytes(a, &t, 6, 0, 100);
	struct ibv_wc wc = next(a->cq);
	quiet(b->cq, 0.005);
	post_bytes(a, &to_b, 2, 0, 100);
	good(a->cq);
	good(b->cq);
	step("a wrong qkey: %u, %s", wc.vendor_err, ibv_wc_status_str(wc.status));
}

int main(void)
{
	begin();
	struct device d = open_device();
	a = open_end(&d, (struct options){});
	b = open_end(&d, (struct options){});
	to_b = aim(a, b);
	struct target back = aim(b, a);
	works();
	local();
	remote();
	short_buffer();
	qkey();
	unaim(&back);
	unaim(&to_b);
	close_end(a);
	close_end(b);
	close_device(&d);
	step("close");
	return 0;
}
