/* One endpoint of the EFA provider that is its own peer, with a queue and memory. */
#include <complex.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MUST ends the program if a call fails, AGAIN repeats one that cannot be carried out yet. */
#define MUST(call) \
	do { \
		long must_ = (call); \
		if (must_ < 0) { \
			printf("%s: %s\n", #call, fi_strerror((int)-must_)); \
			exit(2); \
		} \
	} while (0)
#define AGAIN(call) \
	do { \
		long again_; \
		while ((again_ = (call)) == -FI_EAGAIN) \
			fi_cq_read(cq, NULL, 0); \
		MUST(again_); \
	} while (0)

/* defect says what happened, and is the exit status of a program that saw it. */
#define defect(...) (printf(__VA_ARGS__), printf("\n"), 1)

static struct fi_info *info;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t self, silent; /* an address that there is, one at which nobody is */
static struct fi_cq_tagged_entry entry;
static struct fi_cq_err_entry error;

static void open_endpoint(const char *rdma)
{
	struct fi_info *hints = fi_allocinfo();
	struct fid_fabric *fabric;
	struct fid_av *av;
	struct fid_eq *eq;
	char name[64];
	setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 1), setenv("FI_EFA_USE_DEVICE_RDMA", rdma, 1);
	hints->fabric_attr->prov_name = strdup("efa"), hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV, hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	MUST(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_eq_open(fabric, &(struct fi_eq_attr){.wait_obj = FI_WAIT_NONE}, &eq, NULL));
	MUST(fi_cq_open(domain, &(struct fi_cq_attr){.format = FI_CQ_FORMAT_TAGGED}, &cq, NULL));
	MUST(fi_av_open(domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &av, NULL));
	MUST(fi_endpoint(domain, info, &ep, NULL));
	MUST(fi_ep_bind(ep, &eq->fid, 0));
	MUST(fi_ep_bind(ep, &av->fid, 0));
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(ep));
	MUST(fi_getname(&ep->fid, name, &(size_t){sizeof name}));
	MUST(fi_av_insert(av, name, 1, &self, 0, NULL));
	name[16] ^= 1;
	MUST(fi_av_insert(av, name, 1, &silent, 0, NULL));
}

/* next waits for a completion: 1, or 0 if it is an error. */
static int next(void)
{
	long r;
	while ((r = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	return r == 1 ? 1 : (fi_cq_readerr(cq, &error, 0), 0);
}

/* exchange sends a message and waits for all that there is of it; it counts completions of another operation meanwhile. */
static int exchange_seeing(const void *other)
{
	static struct fi_context2 sent, received;
	static char from[8], to[8];
	int seen = 0, mine = 0;
	AGAIN(fi_trecv(ep, to, sizeof to, NULL, self, 99, 0, &received));
	AGAIN(fi_tsend(ep, from, sizeof from, NULL, self, 99, &sent));
	while (mine < 2)
		if (next())
			mine += entry.op_context == &sent || entry.op_context == &received, seen += entry.op_context == other;
	return seen;
}

static inline void exchange(void) { exchange_seeing(NULL); }
