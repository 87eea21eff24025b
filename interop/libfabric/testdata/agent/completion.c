/* Operations under way, and their completions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent.h"

static struct op *ops;
static int waiting; /* for completions */

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct op *op_new(enum kind kind, uint64_t id)
{
	struct op *op = calloc(1, sizeof(*op));

	if (op == NULL)
		abort();
	op->kind = kind;
	op->id = id;
	op->next = ops;
	op->prev = &ops;
	if (ops != NULL)
		ops->prev = &op->next;
	ops = op;
	waiting++;
	return op;
}

struct op *op_find(uint64_t id)
{
	for (struct op *op = ops; op != NULL; op = op->next)
		if (op->id == id && op->flood == NULL)
			return op;
	return NULL;
}

void op_free(struct op *op)
{
	*op->prev = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	buffer_free(&op->buf);
	buffer_free(&op->result);
	buffer_free(&op->compare);
	free(op);
	waiting--;
}

/* ops_close forgets all: the endpoint is closed, and completes nothing more. */
void ops_close(void)
{
	while (ops != NULL)
		op_free(ops);
}

int outstanding(void)
{
	return waiting;
}

static const char *kind_name(const struct op *op)
{
	static const char *const names[] = {
		[SEND] = "send", [RECV] = "recv",	[WRITE] = "write",     [READ] = "read",
		[ATOMIC] = "atomic", [FETCH] = "fetch", [COMPARE] = "compare",
	};

	return names[op->kind];
}

static int sends(const struct op *op)
{
	return op->kind == SEND || op->kind == WRITE || op->kind == ATOMIC || op->kind == FETCH || op->kind == COMPARE;
}

/* print_data says what the buffer holds now. */
static void print_data(const struct op *op, size_t len)
{
	size_t at = 0;
	int seed;

	if (op->kind == FETCH || op->kind == COMPARE) {
		printf(" hex=");
		print_hex(stdout, op->result.iov[0].iov_base, op->result.size);
		if (!buffer_intact(&op->result, op->result.size, &at))
			printf(" over=%zu", at);
		return;
	}
	if (op->buf.base == NULL || op->kind == ATOMIC)
		return;
	if (len > op->buf.size)
		len = op->buf.size;
	if (sends(op))
		len = op->buf.size;
	seed = buffer_seed(&op->buf, len, &at);
	if (seed == -2)
		printf(" bad=%zu", at);
	else
		printf(" seed=%d", seed);
	if (!buffer_intact(&op->buf, len, &at))
		printf(" over=%zu", at);
}

/*
 * op_of is the operation that a completion is of, NULL for a peer's write. There
 * fi_cq(3) promises a context of NULL; libfabric 2.1 gives that of an older receive.
 */
static struct op *op_of(uint64_t flags, void *context)
{
	return flags & FI_REMOTE_WRITE ? NULL : context;
}

static void done(const struct fi_cq_tagged_entry *e, fi_addr_t source)
{
	struct op *op = op_of(e->flags, e->op_context);

	if (op != NULL && op->flood != NULL) {
		flood_done(op, e);
		return;
	}
	printf("* done id=%llu kind=%s flags=%#llx len=%zu tag=%llu data=%llu source=%lld",
	       (unsigned long long)(op != NULL ? op->id : 0), op != NULL ? kind_name(op) : "remote",
	       (unsigned long long)e->flags, e->len, (unsigned long long)e->tag, (unsigned long long)e->data,
	       source == FI_ADDR_NOTAVAIL ? -1LL : (long long)source);
	if (op != NULL && !op->claimed)
		print_data(op, op->kind == READ ? op->buf.size : e->len);
	printf("\n");
	if (op != NULL && op->claimed)
		op->claimed = 2; /* its context names the message until it is received */
	else if (op != NULL)
		op_free(op);
}

static void failed(const struct fi_cq_err_entry *e, const char *text)
{
	struct op *op = op_of(e->flags, e->op_context);

	if (op != NULL && op->flood != NULL) {
		flood_failed(op, e, text);
		return;
	}
	printf("* fail id=%llu kind=%s flags=%#llx err=%d prov=%d len=%zu lost=%zu tag=%llu data=%llu",
	       (unsigned long long)(op != NULL ? op->id : 0), op != NULL ? kind_name(op) : "remote",
	       (unsigned long long)e->flags, e->err, e->prov_errno, e->len, e->olen, (unsigned long long)e->tag,
	       (unsigned long long)e->data);
	if (op != NULL && e->err == FI_ETRUNC)
		print_data(op, op->buf.size);
	printf(" text=%s: %s\n", fi_strerror(e->err), text != NULL ? text : "");
	if (op != NULL)
		op_free(op);
}

static int read_error(void)
{
	struct fi_cq_err_entry e;
	char text[1024] = "", info[1024];

	memset(&e, 0, sizeof(e));
	e.err_data = info;
	e.err_data_size = sizeof(info);
	if (fi_cq_readerr(agent.cq, &e, 0) <= 0)
		return 0;
	fi_cq_strerror(agent.cq, e.prov_errno, e.err_data, text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	failed(&e, text);
	return 1;
}

/* print_event is silent about what has been said often. */
static void print_event(int err, int prov, const char *text)
{
	static int last_err, last_prov, times;

	if (err != last_err || prov != last_prov)
		times = 0;
	last_err = err;
	last_prov = prov;
	if (times++ < MAX_REPEATS)
		printf("* event err=%d prov=%d text=%s\n", err, prov, text);
}

static int read_events(void)
{
	struct fi_eq_err_entry e;
	char buf[256];
	uint32_t event = 0;
	ssize_t r = fi_eq_read(agent.eq, &event, buf, sizeof(buf), 0);

	if (r == -FI_EAVAIL) {
		memset(&e, 0, sizeof(e));
		if (fi_eq_readerr(agent.eq, &e, 0) < 0)
			return 0;
		print_event(e.err, e.prov_errno, fi_strerror(e.err));
		return 1;
	}
	if (r >= 0)
		print_event(0, (int)event, "event");
	return r >= 0;
}

int progress(void)
{
	struct fi_cq_tagged_entry e[16];
	fi_addr_t source[16];
	int happened = 0;
	ssize_t n;

	if (!agent.open)
		return 0;
	for (int i = 0; i < 16; i++)
		source[i] = FI_ADDR_NOTAVAIL;
	n = fi_cq_readfrom(agent.cq, e, 16, source);
	for (ssize_t i = 0; i < n; i++)
		done(&e[i], source[i]);
	if (n > 0)
		happened += (int)n;
	else if (n == -FI_EAVAIL)
		happened += read_error();
	else if (n != -FI_EAGAIN && n != 0)
		print_event((int)-n, 0, "fi_cq_readfrom");
	happened += read_events();
	if (happened)
		fflush(stdout);
	return happened;
}

void patience_begin(struct patience *p)
{
	p->until = now_ns() + (uint64_t)agent.patience * 1000000u;
}

/* patience_left makes progress, which is what FI_EAGAIN asks for. */
int patience_left(struct patience *p)
{
	progress();
	return now_ns() < p->until;
}

int do_cancel(const struct words *c)
{
	struct op *op = op_find(word_number(c, "id", 0));
	ssize_t r;

	if (op == NULL)
		return reply_ok("gone=1");
	r = fi_cancel(&agent.ep->fid, op);
	return r != 0 ? reply_fail((int)r, "fi_cancel") : reply_ok("%s", "");
}
