// RDMA reads: every size, every offset, or with an argument every reason to be
// refused.
#include "ends.h"

#define SIZE (9 << 20)

static struct end *a, *b;
static struct target to_b;

// post_read reads from an address of b's process into memory of a.
static int post_read(const struct target *t, uint32_t rkey, uint64_t from, uint32_t lkey, size_t at, uint32_t bytes)
{
	ibv_wr_start(a->qp_ex);
	a->qp_ex->wr_id = bytes;
	a->qp_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(a->qp_ex, rkey, from);
	ibv_wr_set_ud_addr(a->qp_ex, t->ah, t->qpn, t->qkey);
	ibv_wr_set_sge(a->qp_ex, lkey, (uintptr_t)a->memory + at, bytes);
	return ibv_wr_complete(a->qp_ex);
}

static uint64_t base(void)
{
	return (uintptr_t)b->memory;
}

static void read_good(size_t from, size_t at, uint32_t bytes)
{
	memset(a->memory + at, 0xee, bytes + 1);
	must(!post_read(&to_b, b->mr->rkey, base() + from, a->mr->lkey, at, bytes));
	must(good(a->cq).wr_id == bytes);
	must(!memcmp(a->memory + at, b->memory + from, bytes), ": %u bytes from %zu", bytes, from);
	must(a->memory[at + bytes] == 0xee);
}

static void sizes(void)
{
	fill(b->memory, b->bytes, 99);
	for (uint32_t n = 1; n <= 64; n++)
		read_good(n * 3, n, n);
	uint32_t most = a->device->efa.max_rdma_size < 8 << 20 ? a->device->efa.max_rdma_size : 8 << 20;
	for (uint32_t n = 128; n < most; n *= 2)
		for (int around = -1; around <= 1; around++)
			read_good(n % 1000, n % 77, n + (uint32_t)around);
	read_good(0, 0, most / 7 * 5 + 3);
	read_good(1, 5, most);
	step("1 to %u bytes", most);
	read_good(b->bytes - 4096, 0, 4096);
	step("up to the end of the region");
	quiet(b->cq, 0.01);
	step("the other side is told nothing");
}

// many has as many reads under way as the queue takes.
static void many(void)
{
	for (uint32_t i = 0; i < 64; i++)
		must(!post_read(&to_b, b->mr->rkey, base() + i * 10000, a->mr->lkey, i * 20000, 10000 + i));
	for (int i = 0; i < 64; i++)
		good(a->cq);
	for (uint32_t i = 0; i < 64; i++)
		must(!memcmp(a->memory + i * 20000, b->memory + i * 10000, 10000 + i));
	step("64 at a time");
}

static void ends(const char *what, int posted)
{
	must(!posted);
	struct ibv_wc wc = next(a->cq);
	must(wc.status != IBV_WC_SUCCESS);
	step("%s: %u, %s", what, wc.vendor_err, ibv_wc_status_str(wc.status));
	read_good(0, 0, 100);
}

static void refused(void)
{
	uint32_t l = a->mr->lkey, r = b->mr->rkey;
	ends("a remote key that names nothing", post_read(&to_b, r ^ 0x5a5a5a5a, base(), l, 0, 100));
	ends("beyond the end of the remote region", post_read(&to_b, r, base() + b->bytes - 99, l, 0, 100));
	ends("before its begin", post_read(&to_b, r, base() - 1, l, 0, 100));
	ends("around the address space", post_read(&to_b, r, -50ul, l, 0, 100));

	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	must(mr);
	ends("a remote region without the right", post_read(&to_b, mr->rkey, base(), l, 0, 100));
	must(!ibv_dereg_mr(mr));
	mr = ibv_reg_mr(b->pd, b->memory, 4096, IBV_ACCESS_REMOTE_READ);
	must(mr);
	must(!post_read(&to_b, mr->rkey, base(), l, 0, 100));
	good(a->cq);
	uint32_t old = mr->rkey;
	must(!ibv_dereg_mr(mr));
	ends("a remote region that is closed", post_read(&to_b, old, base(), l, 0, 100));

	ends("a local key that names nothing", post_read(&to_b, r, base(), l ^ 0x5a5a5a, 0, 100));
	ends("beyond the end of the local region", post_read(&to_b, r, base(), l, a->bytes - 99, 100));
	mr = ibv_reg_mr(a->pd, a->memory, 4096, IBV_ACCESS_REMOTE_READ);
	must(mr);
	ends("a local region that may not be written", post_read(&to_b, r, base(), mr->lkey, 0, 100));
	must(!ibv_dereg_mr(mr));

	struct target t = to_b;
	t.qpn ^= 0x4000;
	ends("of a queue pair that never was", post_read(&t, r, base(), l, 0, 100));
}

int main(int argc, char **argv)
{
	(void)argv;
	begin();
	struct device d = open_device();
	a = open_end(&d, (struct options){.read = true, .bytes = SIZE});
	b = open_end(&d, (struct options){.bytes = SIZE, .access = IBV_ACCESS_REMOTE_READ});
	to_b = aim(a, b);
	struct target back = aim(b, a); // EFA: who is read needs a handle of the reader
	if (argc > 1) {
		refused();
	} else {
		sizes();
		many();
	}
	unaim(&back);
	unaim(&to_b);
	close_end(a);
	close_end(b);
	close_device(&d);
	step("close");
	return 0;
}
