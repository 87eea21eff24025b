/* Tagged messages. */
#include "agent.h"

int post_tsend(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	const void *p = b->iov[0].iov_base;
	ssize_t r;

	if (q->inject && !q->msg) {
		op->quiet = 1;
		if (q->has_data)
			AGAIN(r, fi_tinjectdata(agent.ep, p, b->size, q->data, q->peer, q->tag));
		else
			AGAIN(r, fi_tinject(agent.ep, p, b->size, q->peer, q->tag));
	} else if (q->msg || (q->has_data && b->n > 1)) {
		struct fi_msg_tagged m = {b->iov, b->desc, b->n, q->peer, q->tag, 0, op, q->data};
		uint64_t flags = q->flags | FI_COMPLETION;

		if (q->has_data)
			flags |= FI_REMOTE_CQ_DATA;
		if (q->inject)
			flags |= FI_INJECT;
		AGAIN(r, fi_tsendmsg(agent.ep, &m, flags));
	} else if (b->n > 1) {
		AGAIN(r, fi_tsendv(agent.ep, b->iov, b->desc, b->n, q->peer, q->tag, op));
	} else if (q->has_data) {
		AGAIN(r, fi_tsenddata(agent.ep, p, b->size, b->desc[0], q->data, q->peer, q->tag, op));
	} else {
		AGAIN(r, fi_tsend(agent.ep, p, b->size, b->desc[0], q->peer, q->tag, op));
	}
	return (int)r;
}

int post_trecv(struct op *op, const struct request *q)
{
	struct buffer *b = &op->buf;
	ssize_t r;

	if (q->msg) {
		struct fi_msg_tagged m = {b->iov, b->desc, b->n, q->peer, q->tag, q->ignore, op, 0};

		AGAIN(r, fi_trecvmsg(agent.ep, &m, q->flags | FI_COMPLETION));
	} else if (b->n > 1) {
		AGAIN(r, fi_trecvv(agent.ep, b->iov, b->desc, b->n, q->peer, q->tag, q->ignore, op));
	} else {
		AGAIN(r, fi_trecv(agent.ep, b->iov[0].iov_base, b->size, b->desc[0], q->peer, q->tag, q->ignore, op));
	}
	return (int)r;
}
