/* Floods: many operations both ways with one peer, all checked. */
#include <stdarg.h>
#include <string.h>

#include "agent.h"

enum { MAX_WINDOW = 256 };

/* The operation in a place of the window. */
enum place { FREE, BUSY, WRITTEN };

struct flood {
	int used, told;
	uint64_t id, number, seed, peer_seed, n, peer_n;
	fi_addr_t peer;
	size_t window, max, inject;
	int rma;
	uint64_t addr, key;

	uint64_t next, oldest; /* of ours */
	unsigned char places[MAX_WINDOW];
	uint64_t peer_next, receiving, received, bytes;
	int open; /* operations */
	char wrong[256];
};

static struct flood floods[MAX_FLOODS];

static void __attribute__((format(printf, 2, 3))) wrong(struct flood *f, const char *format, ...)
{
	va_list args;

	if (f->wrong[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(f->wrong, sizeof(f->wrong), format, args);
	va_end(args);
}

int do_flood(const struct words *c)
{
	struct flood *f = NULL;

	for (int i = 0; i < MAX_FLOODS; i++)
		if (!floods[i].used || (floods[i].told && floods[i].open == 0))
			f = &floods[i];
	if (f == NULL)
		return reply_wrong("too many floods");
	memset(f, 0, sizeof(*f));
	f->used = 1;
	f->id = word_number(c, "id", 0);
	f->number = word_number(c, "number", 0);
	f->peer = word_number(c, "peer", 0);
	f->seed = word_number(c, "seed", 0);
	f->peer_seed = word_number(c, "peerseed", 0);
	f->n = word_number(c, "n", 0);
	f->peer_n = word_number(c, "peern", 0);
	f->window = word_number(c, "window", 8);
	f->max = word_number(c, "max", 65536);
	f->inject = word_number(c, "inject", 0);
	f->rma = word_given(c, "rma");
	f->addr = word_number(c, "addr", 0);
	f->key = word_number(c, "key", 0);
	if (f->window < 1 || f->window > MAX_WINDOW) {
		f->used = 0;
		return reply_wrong("a window of 1 to %d", MAX_WINDOW);
	}
	return reply_ok("%s", "");
}

static void advance(struct flood *f)
{
	while (f->oldest < f->next && f->places[f->oldest % f->window] == FREE)
		f->oldest++;
}

static void ended(struct flood *f, uint64_t k)
{
	f->places[k % f->window] = FREE;
	advance(f);
}

/* post_planned posts operation k of ours, or says FI_EAGAIN. */
static int post_planned(struct flood *f, uint64_t k, const struct plan *p, int again)
{
	struct request q = {.peer = f->peer, .tag = f->number << 48 | k, .remote_pieces = 1};
	enum kind kind = p->what == PLAN_ADD ? FETCH : p->what == PLAN_WRITE ? (again ? READ : WRITE) : SEND;
	struct op *op = op_new(kind, 0);
	size_t size = kind == FETCH ? 8 : p->size;
	int r = buffer_make(&op->buf, size, kind == FETCH ? 1 : p->pieces, p->registered);

	op->flood = f;
	op->index = k;
	q.key = f->key;
	q.addr = f->addr + (kind == FETCH ? f->window * f->max : k % f->window * f->max);
	if (kind == SEND) {
		q.has_data = p->has_data;
		q.data = p->data;
		q.inject = p->inject;
	}
	if ((kind == SEND && p->delivered) || kind == WRITE) {
		q.flags = FI_DELIVERY_COMPLETE;
		q.msg = 1;
	}
	if (r == 0 && kind == FETCH) {
		uint64_t one = k + 1;

		memcpy(op->buf.iov[0].iov_base, &one, sizeof(one));
		if ((r = buffer_make(&op->result, size, 1, p->registered)) == 0)
			r = post_atomic(op, &q, FI_UINT64, FI_SUM, 1);
	} else if (r == 0) {
		if (kind != READ)
			buffer_fill(&op->buf, p->seed);
		if (kind == SEND)
			r = p->what == PLAN_TAGGED ? post_tsend(op, &q) : post_send(op, &q);
		else
			r = kind == READ ? post_read(op, &q) : post_write(op, &q);
	}
	if (r == 0) {
		f->places[k % f->window] = BUSY;
		f->bytes += size;
	}
	if (r == 0 && !op->quiet) {
		f->open++;
		return 0;
	}
	if (r == 0)
		f->places[k % f->window] = FREE;
	op_free(op);
	return r;
}

static void step_ours(struct flood *f)
{
	struct plan p;
	int r = 0;

	for (uint64_t k = f->oldest; k < f->next && r == 0; k++)
		if (f->places[k % f->window] == WRITTEN) {
			plan_make(&p, f->seed, k, f->max, f->inject);
			r = post_planned(f, k, &p, 1);
		}
	while (r == 0 && f->next < f->n && f->next < f->oldest + f->window) {
		plan_make(&p, f->seed, f->next, f->max, f->inject);
		if (f->rma || p.what == PLAN_MESSAGE || p.what == PLAN_TAGGED)
			r = post_planned(f, f->next, &p, 0);
		if (r == 0) {
			f->next++;
			advance(f); /* what is injected is over */
		}
	}
	if (r != 0 && r != -FI_EAGAIN)
		wrong(f, "operation from %llu: %s", (unsigned long long)f->oldest, fi_strerror(-r));
}

/* step_receives posts receives for what the peer will send, in its order. */
static void step_receives(struct flood *f)
{
	while (f->peer_next < f->peer_n && f->receiving < f->window) {
		struct request q = {.peer = f->peer, .tag = f->number << 48 | f->peer_next};
		struct plan p;
		struct op *op;
		int r;

		plan_make(&p, f->peer_seed, f->peer_next, f->max, f->inject);
		if (p.what != PLAN_MESSAGE && p.what != PLAN_TAGGED) {
			f->peer_next++;
			f->received++;
			continue;
		}
		op = op_new(RECV, 0);
		op->flood = f;
		op->index = f->peer_next;
		r = buffer_make(&op->buf, p.size + p.seed, p.pieces == 1 ? 1 : 2, !p.registered);
		if (r == 0 && p.what == PLAN_TAGGED && p.seed % 2 == 0)
			q.peer = FI_ADDR_UNSPEC;
		if (r == 0)
			r = p.what == PLAN_TAGGED ? post_trecv(op, &q) : post_recv(op, &q);
		if (r != 0) {
			op_free(op);
			if (r != -FI_EAGAIN)
				wrong(f, "receive %llu: %s", (unsigned long long)f->peer_next, fi_strerror(-r));
			return;
		}
		f->open++;
		f->peer_next++;
		f->receiving++;
	}
}

/* The flag FI_REMOTE_CQ_DATA is missing where libfabric 1.17 had the message before the receive. */
static void check_received(struct flood *f, struct op *op, const struct fi_cq_tagged_entry *e)
{
	struct plan p;
	size_t at = 0;
	int seed;

	plan_make(&p, f->peer_seed, op->index, f->max, f->inject);
	seed = buffer_seed(&op->buf, e->len, &at);
	if (e->len != p.size)
		wrong(f, "receive %llu: %zu bytes, not %zu", (unsigned long long)op->index, e->len, p.size);
	else if (p.size > 0 && seed != (int)p.seed)
		wrong(f, "receive %llu: seed %d, not %u, at %zu of %zu", (unsigned long long)op->index, seed, p.seed, at, p.size);
	else if (!buffer_intact(&op->buf, e->len, &at))
		wrong(f, "receive %llu: byte %zu behind %zu was written", (unsigned long long)op->index, at, p.size);
	else if (p.has_data ? e->data != p.data : (e->flags & FI_REMOTE_CQ_DATA) != 0)
		wrong(f, "receive %llu: data %llx, not %llx", (unsigned long long)op->index, (unsigned long long)e->data,
		      (unsigned long long)p.data);
	else if (p.what == PLAN_TAGGED && e->tag != (f->number << 48 | op->index))
		wrong(f, "receive %llu: tag %llx", (unsigned long long)op->index, (unsigned long long)e->tag);
}

static void check_read(struct flood *f, struct op *op)
{
	struct plan p;
	size_t at = 0;
	int seed;

	plan_make(&p, f->seed, op->index, f->max, f->inject);
	seed = buffer_seed(&op->buf, p.size, &at);
	if (seed != (int)p.seed)
		wrong(f, "read %llu: seed %d, not %u, at %zu of %zu", (unsigned long long)op->index, seed, p.seed, at, p.size);
	else if (!buffer_intact(&op->buf, p.size, &at))
		wrong(f, "read %llu: byte %zu was written", (unsigned long long)op->index, at);
}

void flood_done(struct op *op, const struct fi_cq_tagged_entry *e)
{
	struct flood *f = op->flood;

	f->open--;
	if (op->kind == RECV) {
		check_received(f, op, e);
		f->receiving--;
		f->received++;
	} else if (op->kind == WRITE) {
		f->places[op->index % f->window] = WRITTEN;
	} else {
		if (op->kind == READ)
			check_read(f, op);
		ended(f, op->index);
	}
	op_free(op);
}

void flood_failed(struct op *op, const struct fi_cq_err_entry *e, const char *text)
{
	struct flood *f = op->flood;

	f->open--;
	wrong(f, "%s %llu: err=%d prov=%d %s", op->kind == RECV ? "receive" : "operation", (unsigned long long)op->index,
	      e->err, e->prov_errno, text != NULL ? text : "");
	op_free(op);
}

int floods_step(void)
{
	unsigned patience = agent.patience;
	int live = 0;

	agent.patience = 0; /* what says FI_EAGAIN is tried again in the next step */
	for (int i = 0; i < MAX_FLOODS; i++) {
		struct flood *f = &floods[i];

		if (!f->used || f->told)
			continue;
		live++;
		if (f->wrong[0] == '\0') {
			step_receives(f);
			step_ours(f);
		}
		if (f->wrong[0] != '\0')
			printf("* flood id=%llu ok=0 text=%s\n", (unsigned long long)f->id, f->wrong);
		else if (f->oldest == f->n && f->received == f->peer_n)
			printf("* flood id=%llu ok=1 bytes=%llu\n", (unsigned long long)f->id, (unsigned long long)f->bytes);
		else
			continue;
		f->told = 1;
		fflush(stdout);
	}
	agent.patience = patience;
	return live;
}

/* floods_close forgets all: their operations are gone. */
void floods_close(void)
{
	memset(floods, 0, sizeof(floods));
}
