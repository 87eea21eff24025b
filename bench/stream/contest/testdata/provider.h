/* What the programs share that use libfabric: an endpoint of a provider, and the addresses of others. */
/* stream.h and fork.h go before this file. */
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

static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;

static void must(long r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-r));
		exit(1);
	}
}

/* open_endpoint makes one with room for so many completions. The capabilities are beside those of
 * messages. */
static void open_endpoint(size_t completions, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .size = completions};

	hints->fabric_attr->prov_name = strdup(PROVIDER);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | caps;
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
}

/* meet exchanges addresses with another process. */
static fi_addr_t meet(int socket)
{
	char name[256] = "", other[256];
	size_t len = sizeof name;
	fi_addr_t peer;

	must(fi_getname(&ep->fid, name, &len), "fi_getname");
	tell(socket, name, sizeof name);
	hear(socket, other, sizeof other);
	if (fi_av_insert(av, other, 1, &peer, 0, NULL) != 1) {
		fprintf(stderr, "fi_av_insert\n");
		exit(1);
	}
	return peer;
}
