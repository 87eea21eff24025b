/* Writes and reads of a peer's memory. */
#include "agent.h"

/* remote cuts the peer's memory into pieces that follow each other. */
static size_t remote(struct fi_rma_iov *iov, const struct request *q, size_t size)
{
	size_t n = q->remote_pieces, done = 0;

	if (n < 1 || n > MAX_PIECES)
		n = 1;
	for (size_t i = 0; i < n; i++) {
		size_t len = i + 1 < n ? size / n : size - done;

		iov[i].addr = q->addr + done;
		iov[i].len = len;
		iov[i].key = q->key;
		done += len;
	}
	return n;
}

int post_write(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	const void *p = b->iov[0].iov_base;
	struct fi_rma_iov iov[MAX_PIECES];
	size_t n = remote(iov, q, b->size);
	ssize_t r;

	if (q->inject && !q->msg) {
		op->quiet = 1;
		if (q->has_data)
			AGAIN(r, fi_inject_writedata(agent.ep, p, b->size, q->data, q->peer, q->addr, q->key));
		else
			AGAIN(r, fi_inject_write(agent.ep, p, b->size, q->peer, q->addr, q->key));
	} else if (q->msg || n > 1 || (q->has_data && b->n > 1)) {
		struct fi_msg_rma m = {b->iov, b->desc, b->n, q->peer, iov, n, op, q->data};
		uint64_t flags = q->flags | FI_COMPLETION;

		if (q->has_data)
			flags |= FI_REMOTE_CQ_DATA;
		if (q->inject)
			flags |= FI_INJECT;
		AGAIN(r, fi_writemsg(agent.ep, &m, flags));
	} else if (b->n > 1) {
		AGAIN(r, fi_writev(agent.ep, b->iov, b->desc, b->n, q->peer, q->addr, q->key, op));
	} else if (q->has_data) {
		AGAIN(r, fi_writedata(agent.ep, p, b->size, b->desc[0], q->data, q->peer, q->addr, q->key, op));
	} else {
		AGAIN(r, fi_write(agent.ep, p, b->size, b->desc[0], q->peer, q->addr, q->key, op));
	}
	return (int)r;
}

int post_read(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	struct fi_rma_iov iov[MAX_PIECES];
	size_t n = remote(iov, q, b->size);
	ssize_t r;

	if (q->msg || n > 1) {
		struct fi_msg_rma m = {b->iov, b->desc, b->n, q->peer, iov, n, op, 0};

		AGAIN(r, fi_readmsg(agent.ep, &m, q->flags | FI_COMPLETION));
	} else if (b->n > 1) {
		AGAIN(r, fi_readv(agent.ep, b->iov, b->desc, b->n, q->peer, q->addr, q->key, op));
	} else {
		AGAIN(r, fi_read(agent.ep, b->iov[0].iov_base, b->size, b->desc[0], q->peer, q->addr, q->key, op));
	}
	return (int)r;
}

static int rma(enum kind kind, const struct words *c, int (*post)(struct op *, const struct request *))
{
	struct request q;
	struct op *op = op_new(kind, word_number(c, "id", 0));
	int r = buffer_make(&op->buf, word_number(c, "size", 0), word_number(c, "pieces", 1), word_given(c, "registered"));

	request_read(&q, c);
	if (r == 0) {
		if (kind == WRITE)
			buffer_fill(&op->buf, (unsigned)word_number(c, "seed", 0));
		r = post(op, &q);
	}
	if (r != 0) {
		op_free(op);
		return reply_fail(r, kind == WRITE ? "write" : "read");
	}
	if (op->quiet)
		op_free(op);
	return reply_ok("%s", "");
}

int do_write(const struct words *c)
{
	return rma(WRITE, c, post_write);
}

int do_read(const struct words *c)
{
	return rma(READ, c, post_read);
}
