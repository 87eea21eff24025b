// Completion events: one for each time that a queue is armed, through a channel
// that can be polled.
#include "ends.h"

static bool readable(struct ibv_comp_channel *channel, double seconds)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	int n = poll(&p, 1, (int)(seconds * 1000));
	must(n >= 0);
	return n == 1;
}

// event waits for one of an end's queue. The emulator may give events that nobody
// asked for, since it can miss that a doorbell that armed was overwritten by one
// that didn't; but no more than one of each queue before it is read.
static void event(struct ibv_comp_channel *channel, struct end *whose)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	for (int i = 0; i < 2 && cq != whose->cq; i++) {
		must(readable(channel, PATIENCE));
		must(!ibv_get_cq_event(channel, &cq, &context));
		must(context == ((struct end *)context)->cq->cq_context && cq == ((struct end *)context)->cq);
		ibv_ack_cq_events(cq, 1);
	}
	must(cq == whose->cq);
}

static void transfer(struct end *a, struct end *b, struct target *to_b)
{
	post_recv(b, 1, 0, 100);
	post_bytes(a, to_b, 2, 0, 100);
	good(a->cq);
}

static void one(struct ibv_comp_channel *channel, struct end *a, struct end *b, struct target *to_b)
{
	must(!ibv_req_notify_cq(b->cq, 0));
	must(!readable(channel, 0.02));
	step("armed: no event without a completion");
	transfer(a, b, to_b);
	event(channel, b);
	good(b->cq);
	step("armed: an event");
	must(!ibv_req_notify_cq(b->cq, 0));
	for (int i = 0; i < 10; i++)
		transfer(a, b, to_b);
	event(channel, b);
	for (int i = 0; i < 10; i++)
		good(b->cq);
	step("armed once, ten completions: an event");
	step("solicited only: %s", name(ibv_req_notify_cq(b->cq, 1)));
}

static void senders(struct ibv_comp_channel *channel, struct end *a, struct end *b, struct target *to_b)
{
	must(!ibv_req_notify_cq(a->cq, 0));
	transfer(a, b, to_b);
	event(channel, a);
	good(b->cq);
	step("a sender's completion is one too");
	must(!ibv_req_notify_cq(a->cq, 0) && !ibv_req_notify_cq(b->cq, 0));
	transfer(a, b, to_b);
	bool seen[2] = {};
	while (!seen[0] || !seen[1]) {
		struct ibv_cq *cq;
		void *context;
		must(readable(channel, PATIENCE));
		must(!ibv_get_cq_event(channel, &cq, &context));
		seen[cq == b->cq] = true;
		ibv_ack_cq_events(cq, 1);
	}
	good(b->cq);
	step("two queues, one channel: an event of each");
}

// blocking bounces a message to and fro; the receiver sleeps until it comes.
static void blocking(struct ibv_comp_channel *channel, struct end *a, struct end *b, struct target *to_b,
		     struct target *to_a, int times)
{
	must(!ibv_req_notify_cq(b->cq, 0));
	for (int i = 0; i < times; i++) {
		post_recv(a, 3, 0, 100);
		transfer(a, b, to_b);
		event(channel, b);
		must(!ibv_req_notify_cq(b->cq, 0));
		good(b->cq);
		post_bytes(b, to_a, 4, 0, 50);
		event(channel, b);
		must(!ibv_req_notify_cq(b->cq, 0));
		good(b->cq);
		good(a->cq);
	}
	step("armed and read %d times", 2 * times);
}

// unread leaves events in the channel: a queue can be destroyed all the same, and
// takes its events with it.
static void unread(struct device *d)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d->context);
	must(channel);
	must(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	struct end *a = open_end(d, (struct options){.channel = channel});
	struct end *b = open_end(d, (struct options){.channel = channel});
	struct target t = aim(a, b);
	struct ibv_cq *cq;
	void *context;
	must(ibv_get_cq_event(channel, &cq, &context) && errno == EAGAIN);
	step("nothing to read: EAGAIN");
	must(!ibv_req_notify_cq(a->cq, 0) && !ibv_req_notify_cq(b->cq, 0));
	transfer(a, b, &t);
	good(b->cq);
	must(readable(channel, PATIENCE));
	poll(NULL, 0, 20); // both have come
	unaim(&t);
	close_end(b);
	event(channel, a);
	must(!readable(channel, 0.02));
	step("a destroyed queue takes its events with it, and no others");
	close_end(a);
	must(!ibv_destroy_comp_channel(channel));
	step("channel closed");
}

int main(void)
{
	begin();
	struct device d = open_device();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d.context);
	must(channel && fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	struct end *a = open_end(&d, (struct options){.channel = channel, .rnr_retry = 7});
	struct end *b = open_end(&d, (struct options){.channel = channel, .rnr_retry = 7, .sgid = true});
	struct target to_b = aim(a, b), to_a = aim(b, a);
	one(channel, a, b, &to_b);
	senders(channel, a, b, &to_b);
	blocking(channel, a, b, &to_b, &to_a, 100);
	unread(&d);
	unaim(&to_a);
	unaim(&to_b);
	close_end(a);
	close_end(b);
	must(!ibv_destroy_comp_channel(channel));
	close_device(&d);
	step("close");
	return 0;
}
