/* Atomics on a peer's memory. */
#include "agent.h"

/* into makes a buffer that holds the bytes of a word of the command. */
static int into(struct buffer *b, const struct words *c, const char *key, size_t size, int registered)
{
	int r = buffer_make(b, size, 1, registered);

	if (r == 0 && word_given(c, key) && word_bytes(c, key, b->iov[0].iov_base, size) != (long)size)
		r = -FI_EINVAL;
	return r;
}

int post_atomic(struct op *op, const struct request *q, enum fi_datatype type, enum fi_op code, size_t count)
{
	struct fi_ioc operand = {op->buf.iov[0].iov_base, count}, result = {NULL, count}, compare = {NULL, count};
	struct fi_rma_ioc at = {q->addr, count, q->key};
	struct fi_msg_atomic m = {&operand, op->buf.desc, 1, q->peer, &at, 1, type, code, op, q->data};
	uint64_t flags = q->flags | FI_COMPLETION;
	ssize_t r;

	if (op->kind != ATOMIC)
		result.addr = op->result.iov[0].iov_base;
	if (op->kind == COMPARE)
		compare.addr = op->compare.iov[0].iov_base;
	if (op->kind == ATOMIC && q->inject && !q->msg) {
		op->quiet = 1;
		AGAIN(r, fi_inject_atomic(agent.ep, operand.addr, count, q->peer, q->addr, q->key, type, code));
	} else if (op->kind == ATOMIC && q->msg) {
		if (q->inject)
			flags |= FI_INJECT;
		AGAIN(r, fi_atomicmsg(agent.ep, &m, flags));
	} else if (op->kind == ATOMIC) {
		AGAIN(r, fi_atomic(agent.ep, operand.addr, count, op->buf.desc[0], q->peer, q->addr, q->key, type, code, op));
	} else if (op->kind == FETCH && q->msg) {
		AGAIN(r, fi_fetch_atomicmsg(agent.ep, &m, &result, op->result.desc, 1, flags));
	} else if (op->kind == FETCH) {
		AGAIN(r, fi_fetch_atomic(agent.ep, operand.addr, count, op->buf.desc[0], result.addr, op->result.desc[0],
					 q->peer, q->addr, q->key, type, code, op));
	} else if (q->msg) {
		AGAIN(r, fi_compare_atomicmsg(agent.ep, &m, &compare, op->compare.desc, 1, &result, op->result.desc, 1, flags));
	} else {
		AGAIN(r, fi_compare_atomic(agent.ep, operand.addr, count, op->buf.desc[0], compare.addr, op->compare.desc[0],
					   result.addr, op->result.desc[0], q->peer, q->addr, q->key, type, code, op));
	}
	return (int)r;
}

static int atomic(enum kind kind, const struct words *c)
{
	struct request q;
	struct op *op = op_new(kind, word_number(c, "id", 0));
	size_t size = word_number(c, "size", 0); /* bytes of all elements */
	int registered = word_given(c, "registered");
	int r = into(&op->buf, c, "operand", size, registered);

	request_read(&q, c);
	if (r == 0 && kind != ATOMIC)
		r = into(&op->result, c, "", size, registered);
	if (r == 0 && kind == COMPARE)
		r = into(&op->compare, c, "compare", size, registered);
	if (r == 0)
		r = post_atomic(op, &q, (enum fi_datatype)word_number(c, "type", 0), (enum fi_op)word_number(c, "op", 0),
				word_number(c, "count", 0));
	if (r != 0) {
		op_free(op);
		return reply_fail(r, "atomic");
	}
	if (op->quiet)
		op_free(op);
	return reply_ok("%s", "");
}

int do_atomic(const struct words *c)
{
	return atomic(ATOMIC, c);
}

int do_fetch(const struct words *c)
{
	return atomic(FETCH, c);
}

int do_compare(const struct words *c)
{
	return atomic(COMPARE, c);
}
