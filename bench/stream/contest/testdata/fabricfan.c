/* The streams of several senders over a provider of libfabric. Receives are for messages of anyone, and
 * completions tell the sender: where receives name theirs, as flow.Hub's do, the provider looks at all that
 * are posted, or at all messages that wait, for each one. */
/* stream.h, fork.h, fan.h and provider.h go before this file. */

struct slot {
	struct fi_context2 context; /* first: the provider's */
	char *buf;
	struct slot *next;
};

static fi_addr_t *peers; /* the senders, or the receiver alone */
static struct slot *unused, answer;
static long posted; /* receives */
static int64_t ack;

/* post_recvs posts those of the unused slots that there is room for. */
static void post_recvs(void)
{
	while (unused && posted < senders * (warm + count)) {
		struct slot *s = unused;
		ssize_t r = tagged ? fi_trecv(ep, s->buf, size, NULL, FI_ADDR_UNSPEC, DATA_TAG, 0, s)
				   : fi_recv(ep, s->buf, size, NULL, FI_ADDR_UNSPEC, s);

		if (r == -FI_EAGAIN)
			return;
		must(r, "fi_recv");
		unused = s->next;
		posted++;
	}
}

static void post_answers(void)
{
	for (int i = 0; owing && i < senders; i++)
		for (; list[i].owed; list[i].owed--, owing--) {
			ssize_t r = fi_tinject(ep, &mine, sizeof mine, peers[i], ACK_TAG);

			if (r == -FI_EAGAIN)
				break;
			must(r, "fi_tinject");
		}
}

static void post_sends(void)
{
	while (unused && sent < warm + count && sent < (answered + 1) * batch) {
		struct slot *s = unused;
		ssize_t r = tagged ? fi_tsend(ep, s->buf, size, NULL, *peers, DATA_TAG, s) : fi_send(ep, s->buf, size, NULL, *peers, s);

		if (r == -FI_EAGAIN)
			return;
		must(r, "fi_send");
		unused = s->next;
		sent++;
	}
}

static void expect_answer(void)
{
	must(fi_trecv(ep, &ack, sizeof ack, NULL, FI_ADDR_UNSPEC, ACK_TAG, 0, &answer), "fi_trecv");
}

static void completed(struct fi_cq_msg_entry *e, fi_addr_t from)
{
	struct slot *s = e->op_context;

	if (s == &answer) {
		if (++answered * batch < warm + count)
			expect_answer();
		return;
	}
	if (e->flags & FI_RECV) {
		if (from >= (fi_addr_t)senders) {
			fprintf(stderr, "a message of nobody\n");
			exit(1);
		}
		came(&list[from], e->len);
	}
	s->next = unused;
	unused = s;
}

static void progress(void)
{
	struct fi_cq_msg_entry entries[64];
	fi_addr_t from[64];
	ssize_t n = fi_cq_readfrom(cq, entries, 64, from);

	if (n == -FI_EAGAIN) {
		idle();
		return;
	}
	must(n, "fi_cq_readfrom");
	for (ssize_t i = 0; i < n; i++)
		completed(&entries[i], from[i]);
}

/* make_room has the provider keep as many messages as all senders may have on the way beside the receives: it
 * loses those for which it has no entry. */
static void make_room(void)
{
	long entries = 1024; /* its default */
	char text[32];

	while (entries < senders * (batch + window))
		entries *= 2;
	snprintf(text, sizeof text, "%ld", entries);
	setenv("FI_SHM_RX_SIZE", text, 0);
}

/* give makes a slot for each operation that may be outstanding. */
static char **give(int pattern)
{
	char **bufs = new_buffers(pattern);
	struct slot *slots = calloc(window, sizeof *slots);

	for (long i = 0; i < window; i++) {
		slots[i].buf = bufs[i % buffers];
		slots[i].next = unused;
		unused = &slots[i];
	}
	return bufs;
}

int main(int argc, char **argv)
{
	char ***in;
	long bad = 0;

	start(argc, argv);
	peers = calloc(senders, sizeof *peers);
	in = calloc(senders, sizeof *in);
	if (rank == 0)
		make_room();
	open_endpoint(2 * others * window + 64, FI_SOURCE);
	for (int i = 0; i < others; i++)
		if ((peers[i] = meet(sockets[i])) != (fi_addr_t)i) /* a table's are indices */
			exit(1);
	if (rank == 0) {
		for (int i = 0; i < senders; i++)
			in[i] = give(0);
		post_recvs();
	} else {
		give(1);
		expect_answer();
	}
	meet_all();
	carry();
	for (int i = 0; rank == 0 && i < senders; i++)
		bad += wrong(in[i]);
	meet_all();
	fi_close(&ep->fid); /* removes what the provider has under /dev/shm */
	if (rank == 0) {
		print_result(mine, 0, bad);
		join();
	}
	return 0;
}
