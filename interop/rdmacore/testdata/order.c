// Destroying in the wrong order: what is in use is busy. A queue pair that fails
// flushes what it has.
#include "ends.h"

static void busy(struct device *d)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d->context);
	must(channel);
	struct end *e = open_end(d, (struct options){.channel = channel});
	must(ibv_dealloc_pd(e->pd) == EBUSY);
	step("pd of a queue pair: EBUSY");
	must(ibv_destroy_comp_channel(channel) == EBUSY);
	step("channel of a queue: EBUSY");
	// libefa unmaps the queue before it asks, so nothing must be mapped until it
	// asks again.
	int got = ibv_destroy_cq(e->cq);
	int qp = ibv_destroy_qp(e->qp);
	int then = ibv_destroy_cq(e->cq);
	must(got == EBUSY && !qp && !then, ": %s, %s, %s", name(got), name(qp), name(then));
	step("queue of a queue pair: EBUSY");
	must(ibv_dealloc_pd(e->pd) == EBUSY);
	step("pd of a region: EBUSY");
	must(!ibv_dereg_mr(e->mr));
	struct ibv_ah *ah = create_ah(e->pd, d->gid);
	must(ah);
	must(ibv_dealloc_pd(e->pd) == EBUSY);
	step("pd of an address handle: EBUSY");
	must(!ibv_destroy_ah(ah));
	must(!ibv_dealloc_pd(e->pd));
	must(!ibv_destroy_comp_channel(channel));
	step("in order: all are gone");
	munmap(e->memory, e->bytes);
	free(e);
}

// flushed waits for n completions, each of which must say so.
static void flushed(struct ibv_cq *cq, int n, uint64_t from)
{
	bool seen[64] = {};
	for (int i = 0; i < n; i++) {
		struct ibv_wc wc = next(cq);
		must(wc.status == IBV_WC_WR_FLUSH_ERR, ": %u of the device, request %lu", wc.vendor_err, wc.wr_id);
		must(wc.wr_id >= from && wc.wr_id - from < (uint64_t)n && !seen[wc.wr_id - from]);
		seen[wc.wr_id - from] = true;
	}
}

static void flush(struct device *d)
{
	struct end *a = open_end(d, (struct options){.rnr_retry = 7});
	struct end *b = open_end(d, (struct options){});
	struct target t = aim(a, b);
	for (int i = 0; i < 20; i++)
		post_recv(a, 100 + (uint64_t)i, (size_t)i * 64, 64);
	must(!modify(a->qp, IBV_QPS_ERR, 0, 0));
	flushed(a->cq, 20, 100);
	step("ERR: 20 receives are flushed");
	struct ibv_sge sge = {(uintptr_t)a->memory, 8, a->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	must(ibv_post_recv(a->qp, &wr, &bad) == EINVAL);
	must(post(a, &t, &(struct message){.bytes = {8}, .pieces = 1}) == EINVAL);
	step("ERR: nothing can be posted");
	unaim(&t);
	close_end(a);

	a = open_end(d, (struct options){.rnr_retry = 7});
	t = aim(a, b);
	for (int i = 0; i < 20; i++)
		post_bytes(a, &t, (uint64_t)i, 0, 8);
	quiet(a->cq, 0.02); // b has no receive posted
	must(!modify(a->qp, IBV_QPS_ERR, 0, 0));
	flushed(a->cq, 20, 0);
	step("ERR: 20 sends that wait for a receiver are flushed");
	quiet(a->cq, 0.01);
	quiet(b->cq, 0.01);
	step("ERR: each of them once");
	must(!modify(a->qp, IBV_QPS_RESET, 0, 0));
	step("ERR to RESET");
	unaim(&t);
	close_end(a);

	a = open_end(d, (struct options){.rnr_retry = 7});
	t = aim(a, b);
	for (int i = 0; i < 20; i++) {
		post_recv(a, 100 + (uint64_t)i, 0, 64);
		post_bytes(a, &t, (uint64_t)i, 0, 8);
	}
	struct ibv_qp *qp = a->qp;
	a->qp = NULL;
	must(!ibv_destroy_qp(qp));
	step("destroyed with sends and receives outstanding");
	unaim(&t);
	close_end(a);
	close_end(b);
}

int main(void)
{
	begin();
	struct device d = open_device();
	busy(&d);
	flush(&d);
	close_device(&d);
	step("close");
	return 0;
}
