// Two threads, each with its own pair of queue pairs: first with queues of their
// own, then with one queue for all.
#include "ends.h"
#include <pthread.h>
#include <stdatomic.h>

#define MESSAGES 2000

struct worker {
	struct device *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq; // shared, or NULL
	atomic_uint_fast64_t *counts; // of completions that the shared queue gave to anybody, by worker
	uint64_t number;
};

// take reads one completion, of any worker, and counts it for its worker.
static void take(struct worker *w, struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);
	must(n >= 0);
	if (!n) {
		nap();
		return;
	}
	must(wc.status == IBV_WC_SUCCESS, ": %u of the device", wc.vendor_err);
	atomic_fetch_add(&w->counts[wc.wr_id], 1);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct options o = {.pd = w->pd, .cq = w->cq, .rnr_retry = 7};
	struct end *a = open_end(w->device, o), *b = open_end(w->device, o);
	struct target t = aim(a, b);
	uint64_t posted = 0;
	atomic_uint_fast64_t *mine = &w->counts[w->number];
	double end = now() + PATIENCE;
	while (*mine < 2 * MESSAGES) {
		must(now() < end, ": %lu of %d", *mine, 2 * MESSAGES);
		while (posted < MESSAGES && 2 * posted - *mine < 32) {
			post_recv(b, w->number, posted % 64 * 64, 64);
			post_bytes(a, &t, w->number, 32768 + posted % 64 * 64, 64);
			posted++;
		}
		take(w, a->cq);
		if (b->cq != a->cq)
			take(w, b->cq);
	}
	unaim(&t);
	close_end(a);
	close_end(b);
	return NULL;
}

static void run(struct device *d, struct ibv_pd *pd, struct ibv_cq *cq)
{
	atomic_uint_fast64_t counts[2] = {};
	struct worker w[2];
	pthread_t thread[2];
	for (uint64_t i = 0; i < 2; i++) {
		w[i] = (struct worker){d, pd, cq, counts, i};
		must(!pthread_create(&thread[i], NULL, work, &w[i]));
	}
	for (int i = 0; i < 2; i++)
		must(!pthread_join(thread[i], NULL));
	must(counts[0] == 2 * MESSAGES && counts[1] == 2 * MESSAGES);
}

int main(void)
{
	begin();
	struct device d = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(d.context);
	must(pd);
	run(&d, pd, NULL);
	step("queues of their own");
	struct ibv_cq *cq = ibv_create_cq(d.context, 1024, NULL, NULL, 0);
	must(cq);
	run(&d, pd, cq);
	step("one queue");
	must(!ibv_destroy_cq(cq));
	must(!ibv_dealloc_pd(pd));
	close_device(&d);
	step("close");
	return 0;
}
