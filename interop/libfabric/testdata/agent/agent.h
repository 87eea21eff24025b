/*
 * Agent: a program that uses libfabric's public interface as its standard input
 * says. PROTOCOL.md has the commands; one .c file a concept.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
	MAX_WORDS = 48,   /* of a command */
	MAX_PIECES = 4,   /* of a buffer */
	MAX_REGIONS = 64,
	MAX_FLOODS = 8,
	MAX_REPEATS = 4, /* of one event */
	GUARD = 64,       /* bytes around each piece that must not be touched */
	UNTOUCHED = 0xff, /* what they hold; no pattern has it */
	MODULUS = 251,    /* of patterns: byte i is (i + seed) % 251 */
};

/* words.c: a command is a verb and key=value words. */
struct words {
	char *verb;
	int n;
	struct {
		char *key, *value;
	} w[MAX_WORDS];
};

void words_split(struct words *c, char *line);
const char *word_text(const struct words *c, const char *key, const char *otherwise);
uint64_t word_number(const struct words *c, const char *key, uint64_t otherwise);
int word_given(const struct words *c, const char *key);
long word_bytes(const struct words *c, const char *key, unsigned char *to, size_t room);
void print_hex(FILE *f, const void *p, size_t n);

/* report.c: what goes to standard output. */
int reply_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));
int reply_fail(int err, const char *what);
int reply_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* memory.c: buffers of operations, and regions for peers. */
struct buffer {
	unsigned char *base;
	size_t total, size, n;
	struct iovec iov[MAX_PIECES];
	void *desc[MAX_PIECES];
	struct fid_mr *mr;
};

struct region {
	unsigned char *base;
	size_t size;
	struct fid_mr *mr;
};

int buffer_make(struct buffer *b, size_t size, size_t pieces, int registered);
void buffer_fill(struct buffer *b, unsigned seed);
/* The seed of the first len bytes' pattern, -1 of no bytes, -2 if byte *at is wrong. */
int buffer_seed(const struct buffer *b, size_t len, size_t *at);
/* Whether all but the first len bytes are untouched; else *at is one that is not. */
int buffer_intact(const struct buffer *b, size_t len, size_t *at);
void buffer_free(struct buffer *b);
uint64_t splitmix(uint64_t x);

int do_region(const struct words *c);
int do_unregister(const struct words *c);
int do_fill(const struct words *c);
int do_check(const struct words *c);
int do_set(const struct words *c);
int do_get(const struct words *c);
struct region *region_at(uint64_t number);
void regions_close(void);

/* endpoint.c */
struct agent {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_cntr *cntr[6];
	uint64_t fabric_caps;
	unsigned patience; /* milliseconds that a call is repeated while it says FI_EAGAIN */
	int open;
};
extern struct agent agent;

int do_open(const struct words *c);
int do_close(const struct words *c);
int do_insert(const struct words *c);
int do_remove(const struct words *c);
int do_lookup(const struct words *c);
int do_counters(const struct words *c);
int do_setopt(const struct words *c);

/* completion.c: operations under way. */
enum kind { SEND, RECV, WRITE, READ, ATOMIC, FETCH, COMPARE };

struct op {
	struct fi_context2 context; /* first: it is the provider's */
	uint64_t id;
	enum kind kind;
	struct buffer buf;
	struct buffer result;  /* of fetching atomics */
	struct buffer compare; /* of comparing ones */
	struct flood *flood;
	uint64_t index; /* in the flood */
	int quiet;      /* no completion will come: inject */
	int claimed;    /* a message was taken aside for it */
	struct op *next, **prev;
};

struct op *op_new(enum kind kind, uint64_t id);
struct op *op_find(uint64_t id);
void op_free(struct op *op);
void ops_close(void);
int outstanding(void);
int progress(void); /* how much happened */
/* Repeats a call while it says FI_EAGAIN: AGAIN(r, fi_send(...)). */
struct patience {
	uint64_t until;
};
void patience_begin(struct patience *p);
int patience_left(struct patience *p);
#define AGAIN(r, call)                                                            \
	do {                                                                      \
		struct patience p_;                                               \
		patience_begin(&p_);                                              \
		do                                                                \
			(r) = (call);                                             \
		while ((r) == -FI_EAGAIN && patience_left(&p_));                  \
	} while (0)
uint64_t now_ns(void);
int do_cancel(const struct words *c);

/* message.c, tagged.c, rma.c, atomic.c */
struct request {
	fi_addr_t peer;
	uint64_t tag, ignore, data, flags;
	int has_data, inject, msg; /* msg: the call that takes a struct */
	uint64_t addr, key;
	size_t remote_pieces;
};
void request_read(struct request *r, const struct words *c);
int post_send(struct op *op, const struct request *r);
int post_recv(struct op *op, const struct request *r);
int post_tsend(struct op *op, const struct request *r);
int post_trecv(struct op *op, const struct request *r);
int post_write(struct op *op, const struct request *r);
int post_read(struct op *op, const struct request *r);
int do_send(const struct words *c);
int do_recv(const struct words *c);
int do_tsend(const struct words *c);
int do_trecv(const struct words *c);
int do_write(const struct words *c);
int do_read(const struct words *c);
int post_atomic(struct op *op, const struct request *r, enum fi_datatype type, enum fi_op code, size_t count);
int do_atomic(const struct words *c);
int do_fetch(const struct words *c);
int do_compare(const struct words *c);

/* flood.c */
struct flood;
int do_flood(const struct words *c);
int do_plan(const struct words *c);
int floods_step(void); /* how many are under way */
void floods_close(void);
void flood_done(struct op *op, const struct fi_cq_tagged_entry *e);
void flood_failed(struct op *op, const struct fi_cq_err_entry *e, const char *text);

/* plan.c: what a flood does, from its seed; the other side makes the same. */
enum planned { PLAN_MESSAGE, PLAN_TAGGED, PLAN_WRITE, PLAN_ADD };

struct plan {
	enum planned what;
	size_t size;
	unsigned seed;
	int delivered, has_data, inject, registered;
	size_t pieces;
	uint64_t data;
};
void plan_make(struct plan *p, uint64_t seed, uint64_t k, size_t max, size_t inject);

#endif
