// Rings that wrap around: thousands of requests through small queues, the 16 bits
// of the counters, batches longer than the device takes at once.
#include "ends.h"

struct ring {
	struct end *a, *b;
	struct target t;
	uint32_t depth;
	uint8_t *seen;
};

static struct ring open_ring(struct device *d, uint32_t depth, size_t messages)
{
	struct ring r = {.depth = depth, .seen = calloc(1, messages)};
	must(r.seen);
	r.a = open_end(d, (struct options){.sq = depth, .rq = depth, .rnr_retry = 7, .bytes = 8 * messages});
	r.b = open_end(d, (struct options){.sq = depth, .rq = depth});
	r.t = aim(r.a, r.b);
	return r;
}

static void close_ring(struct ring *r)
{
	unaim(&r->t);
	close_end(r->a);
	close_end(r->b);
	free(r->seen);
}

// chain posts sends first to first+n-1 as one list: 8 bytes and the number each.
static void chain(struct ring *r, size_t first, uint32_t n, bool in_line)
{
	struct ibv_send_wr wr[1024], *bad;
	struct ibv_sge sge[1024];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t number = first + i;
		uint8_t *at = r->a->memory + 8 * number;
		memcpy(at, &number, 8);
		sge[i] = (struct ibv_sge){(uintptr_t)at, 8, r->a->mr->lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = number, .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = &sge[i],
					     .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32((uint32_t)number),
					     .send_flags = IBV_SEND_SIGNALED | (in_line ? IBV_SEND_INLINE : 0),
					     .wr.ud = {r->t.ah, r->t.qpn, r->t.qkey}};
	}
	must(!ibv_post_send(r->a->qp, wr, &bad));
}

// receives posts one list of receives, each into the slot that its request names.
static void receives(struct ring *r, const uint32_t *slots, uint32_t n)
{
	struct ibv_recv_wr wr[1024], *bad;
	struct ibv_sge sge[1024];
	for (uint32_t i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)r->b->memory + 8 * slots[i], 8, r->b->mr->lkey};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = slots[i], .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = &sge[i], .num_sge = 1};
	}
	must(!ibv_post_recv(r->b->qp, wr, &bad));
}

// run sends messages with as many outstanding as the queues take, each time as
// many as have ended.
static void run(struct ring *r, size_t messages, bool in_line)
{
	size_t posted = 0, sent = 0, received = 0;
	struct ibv_wc wc[64];
	uint32_t slots[1024];
	for (uint32_t i = 0; i < r->depth; i++)
		slots[i] = i;
	receives(r, slots, r->depth);
	double end = now() + 2 * PATIENCE;
	while (sent < messages || received < messages) {
		uint32_t room = r->depth - (uint32_t)(posted - sent);
		if (room > messages - posted)
			room = (uint32_t)(messages - posted);
		if (room)
			chain(r, posted, room, in_line);
		posted += room;
		int n = ibv_poll_cq(r->a->cq, 64, wc);
		must(n >= 0, ": %d", n);
		for (int i = 0; i < n; i++)
			must(wc[i].status == IBV_WC_SUCCESS, ": %u of the device", wc[i].vendor_err);
		sent += (size_t)n;
		int m = ibv_poll_cq(r->b->cq, 64, wc);
		must(m >= 0, ": %d", m);
		for (int i = 0; i < m; i++) {
			must(wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len == 8);
			uint64_t number;
			memcpy(&number, r->b->memory + 8 * wc[i].wr_id, 8);
			must(number < messages && number == be32toh(wc[i].imm_data), ": %lu", number);
			must(!r->seen[number]++, ": %lu twice", number);
			slots[i] = (uint32_t)wc[i].wr_id;
		}
		received += (size_t)m;
		if (m)
			receives(r, slots, (uint32_t)m);
		if (!room && !n && !m)
			nap();
		must(now() < end, ": %zu sent, %zu received of %zu", sent, received, messages);
	}
}

static void through(struct device *d, uint32_t depth, size_t messages, bool in_line)
{
	struct ring r = open_ring(d, depth, messages);
	run(&r, messages, in_line);
	close_ring(&r);
	step("%zu messages through queues of %u, %s", messages, depth, in_line ? "inline" : "from memory");
}

// full posts until libefa says that there is no room: the device has told it what
// it took.
static void full(struct device *d)
{
	struct end *a = open_end(d, (struct options){.sq = 16, .rq = 16, .rnr_retry = 7});
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	must(!ibv_query_qp(a->qp, &attr, IBV_QP_CAP, &init));
	int most = (int)attr.cap.max_send_wr, n = 0;
	struct target t = aim(a, a);
	while (!post(a, &t, &(struct message){.bytes = {8}, .pieces = 1}))
		must(++n <= most);
	must(n == most, ": %d of %d", n, most);
	quiet(a->cq, 0.01);
	must(post(a, &t, &(struct message){.bytes = {8}, .pieces = 1}) == ENOMEM);
	step("full: ENOMEM after %d", most);
	for (int i = 0; i < n; i += 16) {
		for (int j = 0; j < 16; j++)
			post_recv(a, 1, 0, 8);
		for (int j = 0; j < 32; j++)
			good(a->cq);
	}
	step("full: all end when there are receives");
	unaim(&t);
	close_end(a);
}

int main(int argc, char **argv)
{
	begin();
	struct device d = open_device();
	uint32_t most = argc > 1 ? (uint32_t)atoi(argv[1]) : 1024;
	through(&d, 2, 1000, true);
	through(&d, 4, 4000, false);
	through(&d, 16, 4000, true);
	through(&d, 64, 10000, false);
	through(&d, most, 70000, true); // more than 16 bits count
	full(&d);
	close_device(&d);
	step("close");
	return 0;
}
