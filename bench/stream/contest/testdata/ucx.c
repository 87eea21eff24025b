/* The stream of package flow over UCX. Its messages have tags always; TAGGED means nothing here. */
/* stream.h, fork.h and worker.h go before this file. */

struct slot {
	char *buf;
	struct slot *next;
};

static ucp_ep_h ep;
static int sends, recvs, asked; /* asked: an answer is waited for */
static struct slot *to_send, *to_receive;
static long sent, posted, received, answered, owed; /* owed: answers that are to be sent */
static int64_t began, mine, theirs, ack;

/* The ends of operations. */

static void have_sent(struct slot *s)
{
	s->next = to_send;
	to_send = s;
}

static void have_received(struct slot *s, size_t n)
{
	if (n != (size_t)size) {
		fprintf(stderr, "a message has %zu bytes, not %ld\n", n, size);
		exit(1);
	}
	s->next = to_receive;
	to_receive = s;
	if (++received == warm)
		began = now();
	else if (received == warm + count)
		mine = now() - began;
	if (received % batch == 0)
		owed++;
}

static void have_answer(void)
{
	theirs = ack;
	answered++;
	asked = 0;
}

static void sent_later(void *request, ucs_status_t status, void *slot)
{
	must(status, "send");
	have_sent(slot);
	ucp_request_free(request);
}

static void received_one(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *slot)
{
	must(status, "receive");
	if (slot)
		have_received(slot, info->length);
	else
		have_answer();
	ucp_request_free(request);
}

static void answered_later(void *request, ucs_status_t status, void *none)
{
	(void)none;
	must(status, "answer");
	ucp_request_free(request);
}

/* post_recv has the callback always called, perhaps before it returns: UCX 1.13 does not fill in
 * the length of each message that it reports otherwise. */
static void post_recv(struct slot *s)
{
	ucp_request_param_t p = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = received_one, .user_data = s,
	};
	ucs_status_ptr_t r = s ? ucp_tag_recv_nbx(worker, s->buf, size, DATA_TAG, (ucp_tag_t)-1, &p)
			       : ucp_tag_recv_nbx(worker, &ack, sizeof ack, ACK_TAG, (ucp_tag_t)-1, &p);

	if (UCS_PTR_IS_ERR(r))
		must(UCS_PTR_STATUS(r), "ucp_tag_recv_nbx");
}

static void post(void)
{
	ucp_request_param_t p = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA};
	ucs_status_ptr_t r;
	struct slot *s;

	while (to_receive && posted < warm + count) {
		s = to_receive;
		to_receive = s->next;
		posted++;
		post_recv(s);
	}
	while (sends && !asked && answered * batch < warm + count) {
		asked = 1;
		post_recv(NULL);
	}
	while (sends && to_send && sent < warm + count && sent < (answered + 1) * batch) {
		s = to_send;
		to_send = s->next;
		sent++;
		p.cb.send = sent_later;
		p.user_data = s;
		r = ucp_tag_send_nbx(ep, s->buf, size, DATA_TAG, &p);
		if (UCS_PTR_IS_ERR(r))
			must(UCS_PTR_STATUS(r), "ucp_tag_send_nbx");
		if (!r)
			have_sent(s);
	}
	for (; owed; owed--) {
		p.cb.send = answered_later;
		r = ucp_tag_send_nbx(ep, &mine, sizeof mine, ACK_TAG, &p);
		if (UCS_PTR_IS_ERR(r))
			must(UCS_PTR_STATUS(r), "ucp_tag_send_nbx");
	}
}

int main(int argc, char **argv)
{
	int other, rank;
	long bad;

	parse(argc, argv);
	rank = split(1, &other);
	open_worker();
	ep = meet(other);
	sends = rank == 0 || both;
	recvs = rank == 1 || both;

	char **out = new_buffers(1), **in = new_buffers(0);
	struct slot *slots = calloc(2 * window, sizeof *slots);

	for (long i = 0; i < window; i++) {
		slots[2 * i].buf = out[i % buffers];
		have_sent(&slots[2 * i]);
		slots[2 * i + 1].buf = in[i % buffers];
		slots[2 * i + 1].next = to_receive;
		if (recvs)
			to_receive = &slots[2 * i + 1];
	}
	swap(other, 0);
	while ((sends && answered * batch < warm + count) || (recvs && (received < warm + count || owed))) {
		post();
		progress();
	}
	bad = recvs ? wrong(in) : 0;
	bad += swap(other, bad);
	swap(other, 0); /* neither takes down what the other reads */
	close_worker();
	if (rank == 0) {
		print_result(theirs, mine, bad);
		join();
	}
	return 0;
}
