/* Untagged messages, and what all requests have in common. */
#include <string.h>

#include "agent.h"

/* word_level is the flag of a completion level. */
static uint64_t word_level(const struct words *c)
{
	const char *level = word_text(c, "level", "");

	if (strcmp(level, "inject") == 0)
		return FI_INJECT_COMPLETE;
	if (strcmp(level, "transmit") == 0)
		return FI_TRANSMIT_COMPLETE;
	if (strcmp(level, "deliver") == 0)
		return FI_DELIVERY_COMPLETE;
	if (strcmp(level, "match") == 0)
		return FI_MATCH_COMPLETE;
	return 0;
}

void request_read(struct request *r, const struct words *c)
{
	memset(r, 0, sizeof(*r));
	r->peer = word_given(c, "peer") ? word_number(c, "peer", 0) : FI_ADDR_UNSPEC;
	r->tag = word_number(c, "tag", 0);
	r->ignore = word_number(c, "ignore", 0);
	r->has_data = word_given(c, "data");
	r->data = word_number(c, "data", 0);
	r->inject = word_given(c, "inject");
	r->addr = word_number(c, "addr", 0);
	r->key = word_number(c, "key", 0);
	r->remote_pieces = word_number(c, "rpieces", 1);
	r->flags = word_level(c);
	if (word_given(c, "peek"))
		r->flags |= FI_PEEK;
	if (word_given(c, "claim"))
		r->flags |= FI_CLAIM;
	if (word_given(c, "discard"))
		r->flags |= FI_DISCARD;
	r->msg = r->flags != 0 || word_given(c, "msg");
}

static size_t piece_count(const struct words *c)
{
	return word_number(c, "pieces", 1);
}

/* start makes the operation of a command, with its buffer. */
static struct op *start(enum kind kind, const struct words *c)
{
	struct op *op = op_new(kind, word_number(c, "id", 0));
	int r = buffer_make(&op->buf, word_number(c, "size", 0), piece_count(c), word_given(c, "registered"));

	if (r != 0) {
		op_free(op);
		reply_fail(r, "buffer");
		return NULL;
	}
	if (kind == SEND)
		buffer_fill(&op->buf, (unsigned)word_number(c, "seed", 0));
	return op;
}

/* started replies to the command. */
static int started(struct op *op, int r, const char *what)
{
	if (r != 0) {
		op_free(op);
		return reply_fail(r, what);
	}
	if (op->quiet)
		op_free(op);
	return reply_ok("%s", "");
}

int post_send(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	const void *p = b->iov[0].iov_base;
	ssize_t r;

	if (q->inject && !q->msg) {
		op->quiet = 1;
		if (q->has_data)
			AGAIN(r, fi_injectdata(agent.ep, p, b->size, q->data, q->peer));
		else
			AGAIN(r, fi_inject(agent.ep, p, b->size, q->peer));
	} else if (q->msg || (q->has_data && b->n > 1)) {
		struct fi_msg m = {b->iov, b->desc, b->n, q->peer, op, q->data};
		uint64_t flags = q->flags | FI_COMPLETION;

		if (q->has_data)
			flags |= FI_REMOTE_CQ_DATA;
		if (q->inject)
			flags |= FI_INJECT;
		AGAIN(r, fi_sendmsg(agent.ep, &m, flags));
	} else if (b->n > 1) {
		AGAIN(r, fi_sendv(agent.ep, b->iov, b->desc, b->n, q->peer, op));
	} else if (q->has_data) {
		AGAIN(r, fi_senddata(agent.ep, p, b->size, b->desc[0], q->data, q->peer, op));
	} else {
		AGAIN(r, fi_send(agent.ep, p, b->size, b->desc[0], q->peer, op));
	}
	return (int)r;
}

int post_recv(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	ssize_t r;

	if (q->msg) {
		struct fi_msg m = {b->iov, b->desc, b->n, q->peer, op, 0};

		AGAIN(r, fi_recvmsg(agent.ep, &m, q->flags | FI_COMPLETION));
	} else if (b->n > 1) {
		AGAIN(r, fi_recvv(agent.ep, b->iov, b->desc, b->n, q->peer, op));
	} else {
		AGAIN(r, fi_recv(agent.ep, b->iov[0].iov_base, b->size, b->desc[0], q->peer, op));
	}
	return (int)r;
}

int do_send(const struct words *c)
{
	struct request q;
	struct op *op = start(SEND, c);

	request_read(&q, c);
	return op == NULL ? -1 : started(op, post_send(op, &q), "send");
}

int do_recv(const struct words *c)
{
	struct request q;
	struct op *op = start(RECV, c);

	request_read(&q, c);
	return op == NULL ? -1 : started(op, post_recv(op, &q), "recv");
}

int do_tsend(const struct words *c)
{
	struct request q;
	struct op *op = start(SEND, c);

	request_read(&q, c);
	return op == NULL ? -1 : started(op, post_tsend(op, &q), "tsend");
}

/* take_claimed moves what was claimed into the operation that receives it. */
static struct op *take_claimed(const struct words *c)
{
	struct op *op = op_find(word_number(c, "of", 0));
	int r;

	if (op == NULL || op->claimed != 2) {
		reply_wrong("nothing was claimed by that operation");
		return NULL;
	}
	op->id = word_number(c, "id", 0);
	op->claimed = 0;
	buffer_free(&op->buf);
	r = buffer_make(&op->buf, word_number(c, "size", 0), piece_count(c), word_given(c, "registered"));
	if (r != 0) {
		reply_fail(r, "buffer");
		return NULL;
	}
	return op;
}

/* do_trecv: a claimed message keeps its context until it is received. */
int do_trecv(const struct words *c)
{
	struct request q;
	struct op *op;

	request_read(&q, c);
	if ((q.flags & FI_CLAIM) && !(q.flags & FI_PEEK)) {
		if ((op = take_claimed(c)) == NULL)
			return -1;
	} else {
		if ((op = start(RECV, c)) == NULL)
			return -1;
		if ((q.flags & FI_CLAIM) && (q.flags & FI_PEEK))
			op->claimed = 1;
	}
	return started(op, post_trecv(op, &q), "trecv");
}
