/* The stream of package flow over a provider of libfabric. */
/* stream.h and pair.h go before this file. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#ifndef PROVIDER
#define PROVIDER "shm"
#define SOURCE NULL /* its address, where that is of a network */
#endif

struct slot {
	struct fi_context2 context; /* first: the provider's */
	char *buf;
	struct slot *next;
};

static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t peer;
static int sends, recvs;
static struct slot *unused, answer;
static long sent, received, answered, owed; /* owed: answers that had no room */
static int64_t began, mine, theirs, ack;

static void must(long r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-r));
		exit(1);
	}
}

static void open_endpoint(int socket)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .size = 4 * window + 64};
	char name[256], other[256];
	size_t len = sizeof name;

	hints->fabric_attr->prov_name = strdup(PROVIDER);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	must(fi_getinfo(FI_VERSION(1, 11), SOURCE, NULL, SOURCE ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	must(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
	must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	must(fi_enable(ep), "fi_enable");
	memset(name, 0, sizeof name);
	must(fi_getname(&ep->fid, name, &len), "fi_getname");
	if (write(socket, name, sizeof name) != sizeof name || recv(socket, other, sizeof other, MSG_WAITALL) != sizeof other) {
		fprintf(stderr, "the other process has no address\n");
		exit(1);
	}
	if (fi_av_insert(av, other, 1, &peer, 0, NULL) != 1) {
		fprintf(stderr, "fi_av_insert\n");
		exit(1);
	}
}

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

	if (n == -FI_EAGAIN)
		return;
	must(n, "fi_cq_read");
	for (ssize_t i = 0; i < n; i++)
		completed(&entries[i]);
}

int main(int argc, char **argv)
{
	int other, rank;
	long bad;

	parse(argc, argv);
	rank = split(&other);
	open_endpoint(other);
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
