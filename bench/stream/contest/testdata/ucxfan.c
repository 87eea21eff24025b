/* The streams of several senders over UCX. The tags say who has sent a message, as UCX's receives do not
 * name a sender; TAGGED means nothing here. */
/* stream.h, fork.h, fan.h and worker.h go before this file. */

struct slot {
	char *buf;
	struct slot *next;
	int sender;
};

static ucp_ep_h *peers; /* the senders, or the receiver alone */
static struct slot *unused;
static long *posted; /* receives for each sender */
static int asked; /* whether an answer is waited for */
static int64_t ack;

#define TAG_OF(sender) (((ucp_tag_t)(sender) + 1) << 8 | DATA_TAG)

static void recycle(struct slot *s)
{
	s->next = unused;
	unused = s;
}

/* The ends of operations. */

static void sent_later(void *request, ucs_status_t status, void *slot)
{
	must(status, "send");
	if (slot)
		recycle(slot);
	ucp_request_free(request);
}

static void received_one(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *slot)
{
	struct slot *s = slot;

	must(status, "receive");
	if (!s) {
		answered++;
		asked = 0;
	} else {
		came(&list[s->sender], info->length);
		if (posted[s->sender] < warm + count) {
			posted[s->sender]++;
			recycle(s);
		}
	}
	ucp_request_free(request);
}

/* post_recv has the callback always called, perhaps before it returns: UCX 1.13 does not fill in
 * the length of each message that it reports otherwise. */
static void post_recv(void *buf, size_t n, ucp_tag_t tag, struct slot *s)
{
	ucp_request_param_t p = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = received_one, .user_data = s,
	};
	ucs_status_ptr_t r = ucp_tag_recv_nbx(worker, buf, n, tag, (ucp_tag_t)-1, &p);

	if (UCS_PTR_IS_ERR(r))
		must(UCS_PTR_STATUS(r), "ucp_tag_recv_nbx");
}

/* post_send gives whether the send has ended at once, so that there is no callback. */
static int post_send(ucp_ep_h to, void *buf, size_t n, ucp_tag_t tag, struct slot *s)
{
	ucp_request_param_t p = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = sent_later, .user_data = s,
	};
	ucs_status_ptr_t r = ucp_tag_send_nbx(to, buf, n, tag, &p);

	if (UCS_PTR_IS_ERR(r))
		must(UCS_PTR_STATUS(r), "ucp_tag_send_nbx");
	return !r;
}

static void post_recvs(void)
{
	struct slot *s;

	while ((s = unused)) {
		unused = s->next;
		post_recv(s->buf, size, TAG_OF(s->sender), s);
	}
}

static void post_answers(void)
{
	for (int i = 0; owing && i < senders; i++)
		for (; list[i].owed; list[i].owed--, owing--)
			post_send(peers[i], &mine, sizeof mine, ACK_TAG, NULL);
}

static void post_sends(void)
{
	struct slot *s;

	if (!asked) {
		asked = 1;
		post_recv(&ack, sizeof ack, ACK_TAG, NULL);
	}
	while ((s = unused) && sent < warm + count && sent < (answered + 1) * batch) {
		unused = s->next;
		sent++;
		if (post_send(*peers, s->buf, size, TAG_OF(rank - 1), s))
			recycle(s);
	}
}

/* give makes a slot for each operation that may be outstanding with a sender. */
static char **give(int pattern, int sender)
{
	char **bufs = new_buffers(pattern);
	struct slot *slots = calloc(window, sizeof *slots);

	for (long i = 0; i < window; i++) {
		slots[i] = (struct slot){.buf = bufs[i % buffers], .sender = sender};
		recycle(&slots[i]);
	}
	return bufs;
}

int main(int argc, char **argv)
{
	char ***in;
	long bad = 0;

	start(argc, argv);
	peers = calloc(senders, sizeof *peers);
	posted = calloc(senders, sizeof *posted);
	in = calloc(senders, sizeof *in);
	open_worker();
	for (int i = 0; i < others; i++)
		peers[i] = meet(sockets[i]);
	if (rank == 0) {
		for (int i = 0; i < senders; i++) {
			in[i] = give(0, i);
			posted[i] = window;
		}
		post_recvs();
	} else {
		give(1, 0);
	}
	meet_all();
	carry();
	for (int i = 0; rank == 0 && i < senders; i++)
		bad += wrong(in[i]);
	meet_all();
	meet_all(); /* none takes down what another reads */
	close_worker();
	if (rank == 0) {
		print_result(mine, 0, bad);
		join();
	}
	return 0;
}
