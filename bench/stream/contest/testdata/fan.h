/* What the programs share in which several processes send to the first, as to flow.Hub: the arguments,
 * and what the receiver counts. */
/* stream.h and fork.h go before this file. */

/* sender is one of them, as the receiver sees it. */
struct sender {
	long received, owed; /* messages, and answers that are to be sent */
};

static int senders, rank;    /* rank 0 receives */
static int others, *sockets; /* the processes that this one has to do with */
static struct sender *list;  /* the receiver's */
static int ready, done;      /* senders of which all that do not count have come, and all */
static long owing;           /* answers, to all senders together */
static long sent, answered;  /* a sender's messages, and the answers to them */
static int64_t began, mine;

/* What a library does it by. progress looks for what has ended. */
static void post_recvs(void);
static void post_answers(void);
static void post_sends(void);
static void progress(void);

/* start makes the processes. */
static void start(int argc, char **argv)
{
	if (argc < 2 || (senders = atoi(argv[1])) < 1) {
		fprintf(stderr, "usage: %s SENDERS, then a plan\n", argv[0]);
		exit(2);
	}
	argv[1] = argv[0];
	parse(argc - 1, argv + 1);
	sockets = calloc(senders, sizeof *sockets);
	list = calloc(senders, sizeof *list);
	rank = split(senders, sockets);
	others = rank == 0 ? senders : 1;
}

/* meet_all has the receiver be where all senders are, and each sender where it is. */
static void meet_all(void)
{
	for (int i = 0; i < others; i++)
		swap(sockets[i], 0);
}

static void owe(struct sender *s)
{
	s->owed++;
	owing++;
}

/* came counts a message of n bytes. All senders get their first answers that count together, when the
 * clock starts. */
static void came(struct sender *s, size_t n)
{
	if (n != (size_t)size) {
		fprintf(stderr, "a message has %zu bytes, not %ld\n", n, size);
		exit(1);
	}
	if (++s->received % batch)
		return;
	if (s->received == warm) {
		if (++ready < senders)
			return;
		began = now();
		for (int i = 0; i < senders; i++)
			owe(&list[i]);
		return;
	}
	if (s->received == warm + count && ++done == senders)
		mine = now() - began;
	owe(s);
}

/* carry has all messages go, and all answers. */
static void carry(void)
{
	while (rank == 0 && (done < senders || owing)) {
		progress();
		post_recvs();
		post_answers();
	}
	while (rank != 0 && answered * batch < warm + count) {
		post_sends();
		progress();
	}
}
