// The extended interfaces: ibv_wr_* to post, ibv_start_poll to poll.
#include "ends.h"

static struct end *a, *b;
static struct target to_b;

static void start(uint64_t id)
{
	a->qp_ex->wr_id = id;
	a->qp_ex->wr_flags = IBV_SEND_SIGNALED;
}

static void to(void)
{
	ibv_wr_set_ud_addr(a->qp_ex, to_b.ah, to_b.qpn, to_b.qkey);
}

// first waits for a completion of a queue and leaves it open for reading.
static void first(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {};
	int got = ENOENT;
	until(got != ENOENT, got = ibv_start_poll(cq, &attr));
	must(!got, ": %s", name(got));
}

// again waits for another one.
static void again(struct ibv_cq_ex *cq)
{
	int got = ibv_next_poll(cq);
	if (got == ENOENT) { // it was the last: the queue gave up its place
		ibv_end_poll(cq);
		first(cq);
		return;
	}
	must(!got, ": %s", name(got));
}

static void check_sent(uint64_t id)
{
	struct ibv_cq_ex *cq = a->cq_ex;
	must(cq->status == IBV_WC_SUCCESS && cq->wr_id == id && ibv_wc_read_opcode(cq) == IBV_WC_SEND);
	must(ibv_wc_read_qp_num(cq) == a->qp->qp_num && !ibv_wc_read_vendor_err(cq));
}

static void check_received(uint32_t bytes, bool has_imm, uint32_t imm)
{
	struct ibv_cq_ex *cq = b->cq_ex;
	must(cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_RECV);
	must(ibv_wc_read_byte_len(cq) == bytes, ": %u, not %u", ibv_wc_read_byte_len(cq), bytes);
	must(!(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) == !has_imm);
	must(!has_imm || be32toh(ibv_wc_read_imm_data(cq)) == imm);
	must(ibv_wc_read_src_qp(cq) == a->qp->qp_num && ibv_wc_read_sl(cq) == 0);
	union ibv_gid gid;
	must(efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(cq), &gid) == -ENOENT); // there is a handle
	must(ibv_wc_read_slid(cq) != 0xffff);
}

static void one(uint32_t bytes, bool has_imm, uint32_t imm)
{
	first(a->cq_ex);
	check_sent(imm);
	ibv_end_poll(a->cq_ex);
	first(b->cq_ex);
	check_received(bytes, has_imm, imm);
	ibv_end_poll(b->cq_ex);
	must(same(b->memory, bytes, imm));
}

static void forms(void)
{
	fill(a->memory, 4096, 1);
	post_recv(b, 1, 0, 8000);
	ibv_wr_start(a->qp_ex);
	start(1);
	ibv_wr_send(a->qp_ex);
	ibv_wr_set_inline_data(a->qp_ex, a->memory, 20);
	to();
	must(!ibv_wr_complete(a->qp_ex));
	one(20, false, 1);
	step("send, inline");

	post_recv(b, 1, 0, 8000);
	ibv_wr_start(a->qp_ex);
	start(1);
	ibv_wr_send_imm(a->qp_ex, htobe32(1));
	struct ibv_data_buf bufs[] = {{a->memory, 5}, {a->memory + 5, 0}, {a->memory + 5, 27}};
	ibv_wr_set_inline_data_list(a->qp_ex, 3, bufs);
	to();
	must(!ibv_wr_complete(a->qp_ex));
	one(32, true, 1);
	step("send with immediate, inline list");

	post_recv(b, 1, 0, 8000);
	ibv_wr_start(a->qp_ex);
	start(1);
	ibv_wr_send(a->qp_ex);
	to();
	ibv_wr_set_sge(a->qp_ex, a->mr->lkey, (uintptr_t)a->memory, 4096);
	must(!ibv_wr_complete(a->qp_ex));
	one(4096, false, 1);
	step("send, one piece");

	post_recv(b, 1, 0, 8000);
	ibv_wr_start(a->qp_ex);
	start(1);
	ibv_wr_send_imm(a->qp_ex, htobe32(1));
	struct ibv_sge list[] = {{(uintptr_t)a->memory, 1000, a->mr->lkey}, {(uintptr_t)a->memory + 1000, 3000, a->mr->lkey}};
	ibv_wr_set_sge_list(a->qp_ex, 2, list);
	to();
	must(!ibv_wr_complete(a->qp_ex));
	one(4000, true, 1);
	step("send with immediate, two pieces");
}

// post_number writes a request into the open batch.
static void post_number(uint64_t i)
{
	start(i);
	ibv_wr_send_imm(a->qp_ex, htobe32((uint32_t)i));
	ibv_wr_set_inline_data(a->qp_ex, &i, sizeof(i));
	to();
}

// batch posts more at once than the device takes with one doorbell.
static void batch(uint64_t n, const char *what)
{
	bool sent[64] = {}, received[64] = {};
	for (uint64_t i = 0; i < n; i++)
		post_recv(b, i, i * 8, 8);
	ibv_wr_start(a->qp_ex);
	for (uint64_t i = 0; i < n; i++)
		post_number(i);
	must(!ibv_wr_complete(a->qp_ex));
	first(a->cq_ex);
	for (uint64_t i = 0; i < n; i++) {
		if (i)
			again(a->cq_ex);
		uint64_t id = a->cq_ex->wr_id;
		must(a->cq_ex->status == IBV_WC_SUCCESS && id < n && !sent[id]);
		sent[id] = true;
	}
	ibv_end_poll(a->cq_ex);
	first(b->cq_ex);
	for (uint64_t i = 0; i < n; i++) {
		if (i)
			again(b->cq_ex);
		uint64_t id = b->cq_ex->wr_id, number;
		must(b->cq_ex->status == IBV_WC_SUCCESS && id < n);
		memcpy(&number, b->memory + id * 8, 8);
		must(number == be32toh(ibv_wc_read_imm_data(b->cq_ex)) && number < n && !received[number]);
		received[number] = true;
	}
	ibv_end_poll(b->cq_ex);
	step("%s", what);
}

// aborted leaves nothing for the device, whatever was written.
static void aborted(void)
{
	ibv_wr_start(a->qp_ex);
	for (uint64_t i = 0; i < 40; i++)
		post_number(i);
	ibv_wr_abort(a->qp_ex);
	ibv_wr_start(a->qp_ex);
	post_number(1);
	ibv_wr_set_inline_data(a->qp_ex, a->memory, 33);
	must(ibv_wr_complete(a->qp_ex) == EINVAL);
	ibv_wr_start(a->qp_ex);
	start(1);
	a->qp_ex->wr_flags |= IBV_SEND_FENCE;
	ibv_wr_send(a->qp_ex);
	must(ibv_wr_complete(a->qp_ex) == EINVAL);
	ibv_wr_start(a->qp_ex);
	for (uint64_t i = 0; i < 65; i++)
		post_number(i);
	must(ibv_wr_complete(a->qp_ex) == ENOMEM);
	struct ibv_poll_cq_attr attr = {};
	for (double end = now() + 0.01; now() < end; nap())
		must(ibv_start_poll(a->cq_ex, &attr) == ENOENT && ibv_start_poll(b->cq_ex, &attr) == ENOENT);
	step("aborted batches: nothing is sent");
	attr.comp_mask = 1;
	must(ibv_start_poll(a->cq_ex, &attr) == EINVAL);
}

int main(void)
{
	begin();
	struct device d = open_device();
	a = open_end(&d, (struct options){.ex = true, .sgid = true, .rnr_retry = 7});
	b = open_end(&d, (struct options){.sgid = true});
	to_b = aim(a, b);
	struct target back = aim(b, a);
	forms();
	batch(64, "64 in one batch");
	aborted();
	batch(40, "40 in one batch, after those");
	batch(63, "63 in one batch, around the end of the ring");
	unaim(&back);
	unaim(&to_b);
	close_end(a);
	close_end(b);
	close_device(&d);
	step("close");
	return 0;
}
