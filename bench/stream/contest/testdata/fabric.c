/* The stream of package flow over a provider of libfabric. */
/* stream.h, fork.h and provider.h go before this file. */

struct slot {
	struct fi_context2 context; /* first: the provider's */
	char *buf;
	struct slot *next;
};

static fi_addr_t peer;
static int sends, recvs;
static struct slot *unused, answer;
static long sent, received, answered, owed; /* owed: answers that had no room */
static int64_t began, mine, theirs, ack;

static void post_recv(struct slot *s)
{
	ssize_t r;

	if (s == &answer)
		r = fi_trecv(ep, &ack, sizeof ack, NULL, FI_ADDR_UNSPEC, ACK_TAG, 0, s);
	else if (tagged)
		r = fi_trecv(ep, s->buf, size, NULL, FI_ADDR_UNSPEC, DATA_TAG, 0, s);
	else
		r = fi_recv(ep, s->buf, size, NULL, FI_ADDR_UNSPEC, s);
	must(r, "fi_recv");
}

static void post_sends(void)
{
	while (unused && sent < warm + count && sent < (answered + 1) * batch) {
		struct slot *s = unused;
		ssize_t r = tagged ? fi_tsend(ep, s->buf, size, NULL, peer, DATA_TAG, s) : fi_send(ep, s->buf, size, NULL, peer, s);

		if (r == -FI_EAGAIN)
			return;
		must(r, "fi_send");
		unused = s->next;
		sent++;
	}
}

static void post_answers(void)
{
	while (owed) {
		ssize_t r = fi_tinject(ep, &mine, sizeof mine, peer, ACK_TAG);

		if (r == -FI_EAGAIN)
			return;
		must(r, "fi_tinject");
		owed--;
	}
}

static void completed(struct fi_cq_msg_entry *e)
{
	struct slot *s = e->op_context;

	if (s == &answer) {
		theirs = ack;
		if (++answered * batch < warm + count)
			post_recv(s);
	} else if (e->flags & FI_SEND) {
		s->next = unused;
		unused = s;
	} else {
		if (e->len != (size_t)size) {
			fprintf(stderr, "a message has %zu bytes, not %ld\n", e->len, size);
			exit(1);
		}
		if (++received + window <= warm + count)
			post_recv(s);
		if (received == warm)
			began = now();
		else if (received == warm + count)
			mine = now() - began;
		if (received % batch == 0)
			owed++;
	}
}

static void progress(void)
{
	struct fi_cq_msg_entry entries[64];
	ssize_t n = fi_cq_read(cq, entries, 64);

	if (n == -FI_EAGAIN) {
		idle();
		return;
	}
	must(n, "fi_cq_read");
	for (ssize_t i = 0; i < n; i++)
		completed(&entries[i]);
}

int main(int argc, char **argv)
{
	int other, rank;
	long bad;

	parse(argc, argv);
	rank = split(1, &other);
	open_endpoint(4 * window + 64, 0);
	peer = meet(other);
	sends = rank == 0 || both;
	recvs = rank == 1 || both;

	char **out = new_buffers(1), **in = new_buffers(0);
	struct slot *slots = calloc(2 * window, sizeof *slots);

	for (long i = 0; i < window; i++) {
		slots[2 * i].buf = out[i % buffers];
		slots[2 * i].next = unused;
		unused = &slots[2 * i];
		slots[2 * i + 1].buf = in[i % buffers];
		if (recvs)
			post_recv(&slots[2 * i + 1]);
	}
	if (sends)
		post_recv(&answer);
	swap(other, 0);
	while ((sends && answered * batch < warm + count) || (recvs && (received < warm + count || owed))) {
		if (sends)
			post_sends();
		progress();
		post_answers();
	}
	bad = recvs ? wrong(in) : 0;
	bad += swap(other, bad);
	fi_close(&ep->fid); /* removes what the provider has under /dev/shm */
	if (rank == 0) {
		print_result(theirs, mine, bad);
		join();
	}
	return 0;
}
