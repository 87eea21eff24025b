/* Fabric, domain and endpoint; the address vector; counters. */
#include <stdlib.h>
#include <string.h>

#include "agent.h"

struct agent agent;

static const struct {
	const char *name;
	uint64_t bit;
} caps[] = {
	{"msg", FI_MSG},       {"tagged", FI_TAGGED}, {"rma", FI_RMA},
	{"atomic", FI_ATOMIC}, {"source", FI_SOURCE}, {"directed", FI_DIRECTED_RECV},
	{"multi", FI_MULTI_RECV}, {"rmaevent", FI_RMA_EVENT}, {"comm", FI_LOCAL_COMM | FI_REMOTE_COMM},
};

static const struct {
	const char *name;
	uint64_t flag;
} counters[] = {
	{"send", FI_SEND},   {"recv", FI_RECV},
	{"write", FI_WRITE}, {"read", FI_READ},
	{"remotewrite", FI_REMOTE_WRITE}, {"remoteread", FI_REMOTE_READ},
};

static uint64_t caps_of(const char *text)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		size_t n = strlen(caps[i].name);
		const char *p = text;

		for (; p != NULL; p = strchr(p, ','), p = p != NULL ? p + 1 : NULL)
			if (strncmp(p, caps[i].name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
				bits |= caps[i].bit;
	}
	return bits;
}

/* find asks for what the command says. */
static int find(const struct words *c)
{
	struct fi_info *hints = fi_allocinfo();
	int r;

	if (hints == NULL)
		return -FI_ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps_of(word_text(c, "caps", "msg,tagged,rma,atomic,source,directed,comm"));
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	if (word_given(c, "prefix"))
		hints->mode |= FI_MSG_PREFIX;
	hints->domain_attr->mr_mode = (int)word_number(c, "mrmode", FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
	hints->domain_attr->threading =
		strcmp(word_text(c, "threading", "domain"), "safe") == 0 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	if (!word_given(c, "unordered")) {
		hints->tx_attr->msg_order = FI_ORDER_SAS;
		hints->rx_attr->msg_order = FI_ORDER_SAS;
	}
	hints->fabric_attr->prov_name = strdup(word_text(c, "provider", "efa"));
	if (word_given(c, "fabric"))
		hints->fabric_attr->name = strdup(word_text(c, "fabric", ""));
	if (word_given(c, "domain"))
		hints->domain_attr->name = strdup(word_text(c, "domain", ""));
	r = fi_getinfo(FI_VERSION(1, 17), word_text(c, "node", NULL), NULL, word_given(c, "node") ? FI_SOURCE : 0, hints,
		       &agent.info);
	fi_freeinfo(hints);
	return r;
}

static int open_domain(const struct words *c, const char **what)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	int r;

	*what = "fi_getinfo";
	if ((r = find(c)) != 0)
		return r;
	*what = "fi_fabric";
	if ((r = fi_fabric(agent.info->fabric_attr, &agent.fabric, NULL)) != 0)
		return r;
	*what = "fi_eq_open";
	if ((r = fi_eq_open(agent.fabric, &eq_attr, &agent.eq, NULL)) != 0)
		return r;
	*what = "fi_domain";
	return fi_domain(agent.fabric, agent.info, &agent.domain, NULL);
}

static int open_queues(const char **what)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 8192};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	int r;

	*what = "fi_av_open";
	if ((r = fi_av_open(agent.domain, &av_attr, &agent.av, NULL)) != 0)
		return r;
	*what = "fi_cq_open";
	if ((r = fi_cq_open(agent.domain, &cq_attr, &agent.cq, NULL)) != 0)
		return r;
	*what = "fi_cntr_open";
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if ((r = fi_cntr_open(agent.domain, &cntr_attr, &agent.cntr[i], NULL)) != 0)
			return r;
	return 0;
}

static int open_endpoint(const char **what)
{
	int r;

	*what = "fi_endpoint";
	if ((r = fi_endpoint(agent.domain, agent.info, &agent.ep, NULL)) != 0)
		return r;
	*what = "fi_ep_bind";
	if ((r = fi_ep_bind(agent.ep, &agent.eq->fid, 0)) != 0)
		return r;
	if ((r = fi_ep_bind(agent.ep, &agent.av->fid, 0)) != 0)
		return r;
	if ((r = fi_ep_bind(agent.ep, &agent.cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
		return r;
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if ((r = fi_ep_bind(agent.ep, &agent.cntr[i]->fid, counters[i].flag)) != 0)
			return r;
	*what = "fi_enable";
	return fi_enable(agent.ep);
}

static void close_endpoint(void)
{
	if (agent.ep != NULL)
		fi_close(&agent.ep->fid);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		if (agent.cntr[i] != NULL)
			fi_close(&agent.cntr[i]->fid);
		agent.cntr[i] = NULL;
	}
	if (agent.cq != NULL)
		fi_close(&agent.cq->fid);
	if (agent.av != NULL)
		fi_close(&agent.av->fid);
	agent.ep = NULL;
	agent.cq = NULL;
	agent.av = NULL;
	agent.open = 0;
}

static void close_domain(void)
{
	regions_close();
	if (agent.domain != NULL)
		fi_close(&agent.domain->fid);
	if (agent.eq != NULL)
		fi_close(&agent.eq->fid);
	if (agent.fabric != NULL)
		fi_close(&agent.fabric->fid);
	if (agent.info != NULL)
		fi_freeinfo(agent.info);
	agent.domain = NULL;
	agent.eq = NULL;
	agent.fabric = NULL;
	agent.info = NULL;
}

/* do_open opens the domain if it is not open, and an endpoint. */
int do_open(const struct words *c)
{
	const char *what = "";
	unsigned char name[128];
	size_t len = sizeof(name);
	int r = 0;

	if (agent.open)
		return reply_wrong("open already");
	agent.patience = (unsigned)word_number(c, "patience", 10000);
	if (agent.domain == NULL)
		r = open_domain(c, &what);
	if (r == 0)
		r = open_queues(&what);
	if (r == 0)
		r = open_endpoint(&what);
	if (r == 0) {
		what = "fi_getname";
		r = fi_getname(&agent.ep->fid, name, &len);
	}
	if (r != 0) {
		close_endpoint();
		close_domain();
		return reply_fail(r, what);
	}
	agent.open = 1;
	printf("ok address=");
	print_hex(stdout, name, len);
	printf(" provider=%s domain=%s inject=%zu prefix=%zu mrmode=%d cqdata=%zu tx=%zu rx=%zu\n",
	       agent.info->fabric_attr->prov_name, agent.info->domain_attr->name, agent.info->tx_attr->inject_size,
	       agent.info->ep_attr->msg_prefix_size, agent.info->domain_attr->mr_mode,
	       agent.info->domain_attr->cq_data_size, agent.info->tx_attr->size, agent.info->rx_attr->size);
	return 0;
}

/* do_close closes the endpoint; with domain=1 everything. */
int do_close(const struct words *c)
{
	close_endpoint();
	ops_close();
	floods_close();
	if (word_given(c, "domain"))
		close_domain();
	return reply_ok("%s", "");
}

int do_insert(const struct words *c)
{
	unsigned char name[128];
	fi_addr_t peer = FI_ADDR_NOTAVAIL;
	int r;

	if (word_bytes(c, "address", name, sizeof(name)) <= 0)
		return reply_wrong("no address");
	if ((r = fi_av_insert(agent.av, name, 1, &peer, 0, NULL)) != 1)
		return reply_fail(r < 0 ? r : FI_EADDRNOTAVAIL, "fi_av_insert");
	return reply_ok("peer=%llu", (unsigned long long)peer);
}

int do_remove(const struct words *c)
{
	fi_addr_t peer = word_number(c, "peer", FI_ADDR_NOTAVAIL);
	int r = fi_av_remove(agent.av, &peer, 1, 0);

	return r != 0 ? reply_fail(r, "fi_av_remove") : reply_ok("%s", "");
}

int do_lookup(const struct words *c)
{
	unsigned char name[128];
	size_t len = sizeof(name);
	int r = fi_av_lookup(agent.av, word_number(c, "peer", FI_ADDR_NOTAVAIL), name, &len);

	if (r != 0)
		return reply_fail(r, "fi_av_lookup");
	printf("ok address=");
	print_hex(stdout, name, len);
	printf("\n");
	return 0;
}

int do_counters(const struct words *c)
{
	(void)c;
	printf("ok");
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf(" %s=%llu %s.err=%llu", counters[i].name, (unsigned long long)fi_cntr_read(agent.cntr[i]),
		       counters[i].name, (unsigned long long)fi_cntr_readerr(agent.cntr[i]));
	printf("\n");
	return 0;
}

int do_setopt(const struct words *c)
{
	size_t value = word_number(c, "value", 0);
	int name = (int)word_number(c, "name", 0);
	int r = fi_setopt(&agent.ep->fid, FI_OPT_ENDPOINT, name, &value, sizeof(value));

	return r != 0 ? reply_fail(r, "fi_setopt") : reply_ok("%s", "");
}
