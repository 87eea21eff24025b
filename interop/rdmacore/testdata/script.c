// A script, one step a line, is played on libefa as this repository's driver plays it
// (script_test.go): the emulator's traces of both are compared. After each step comes a
// mark, an ioctl that only the trace knows.
//
//	script FILE
#include "ends.h"
#include <dlfcn.h>
#include <sys/ioctl.h>

static struct device d;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static struct ibv_mr *arena, *regions[8];
static struct ibv_ah *ahs[8];
static int region_count, ah_count;
static uint32_t qkey, stride, sq, rq, in_line;

// Numbers of requests, the last that became free first: a request's copy is in the place
// that its number has.
static uint64_t unused[1 << 12];
static uint32_t unused_count;
static const uint64_t receive = 1ULL << 32;

static void mark(int line)
{
	struct {
		uint16_t length, object, method, attrs;
		uint64_t zero;
		uint32_t driver, zero2;
	} header = {.length = 24, .object = 0xfff0, .method = (uint16_t)line, .driver = 17};
	must(ioctl(d.context->cmd_fd, 0xc0181b01, &header) < 0);
}

static struct ibv_mr *memory(size_t bytes, int access)
{
	void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(m != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_mr(pd, m, bytes, access);
	must(mr);
	return mr;
}

static void forget(struct ibv_mr *mr)
{
	void *m = mr->addr;
	size_t n = mr->length;
	must(!ibv_dereg_mr(mr));
	must(!munmap(m, n));
}

// open_all is what the driver does when a device is opened.
static void open_all(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	must(list && n == 1, ": %d devices", n);
	d.context = ibv_open_device(list[0]);
	must(d.context);
	ibv_free_device_list(list);
	must(!ibv_query_port(d.context, 1, &d.port));
	must(!ibv_query_gid(d.context, 1, 0, &d.gid));
	pd = ibv_alloc_pd(d.context);
	must(pd);
	Dl_info where;
	must(dladdr((void *)d.context->ops.poll_cq, &where));
	step("driver %s", where.dli_fname);
}

// open_qp is what the driver does for a queue pair. vector < 0: no events; rnr < 0: the
// device does not let it be chosen.
static void open_qp(const char *args)
{
	int vector, rnr, write;
	int got = sscanf(args, "%u %u %u %x %d %d %d", &sq, &rq, &in_line, &qkey, &rnr, &vector, &write);
	must(got == 7);
	stride = (d.port.max_msg_sz + 63) & ~63u;
	arena = memory((size_t)stride * (sq + rq), IBV_ACCESS_LOCAL_WRITE);
	if (vector >= 0)
		must(channel = ibv_create_comp_channel(d.context));
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = sq + rq, .channel = channel, .comp_vector = vector >= 0 ? vector : 0,
					      .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa_cq = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	struct ibv_cq_ex *cq_ex = efadv_create_cq(d.context, &cq_attr, &efa_cq, sizeof(efa_cq));
	must(cq_ex);
	cq = ibv_cq_ex_to_cq(cq_ex);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = sq, .max_recv_wr = rq, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = in_line},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	if (write >= 0)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	if (write > 0)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	struct efadv_qp_init_attr srd = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	qp = efadv_create_qp_ex(d.context, &attr, &srd, sizeof(srd));
	must(qp);
	ex = ibv_qp_to_qp_ex(qp);
	struct ibv_qp_attr m = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	must(!ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	must(!ibv_modify_qp(qp, &m, IBV_QP_STATE));
	m = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .rnr_retry = rnr > 0 ? rnr : 0};
	must(!ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_SQ_PSN | (rnr >= 0 ? IBV_QP_RNR_RETRY : 0)));
	for (unused_count = 0; unused_count < sq; unused_count++)
		unused[unused_count] = sq - 1 - unused_count;
}

static void close_qp(void)
{
	must(!ibv_destroy_qp(qp));
	must(!ibv_destroy_cq(cq));
	if (channel)
		must(!ibv_destroy_comp_channel(channel));
	channel = NULL;
	forget(arena);
}

static void post_recvs(const char *args)
{
	struct ibv_sge sges[64];
	struct ibv_recv_wr wrs[64], *bad;
	int n = 0, slot, used;
	for (; sscanf(args, "%d%n", &slot, &used) == 1; args += used, n++) {
		must(n < 64);
		sges[n] = (struct ibv_sge){(uintptr_t)arena->addr + (size_t)slot * stride, d.port.max_msg_sz, arena->lkey};
		wrs[n] = (struct ibv_recv_wr){.wr_id = receive | (uint64_t)slot, .sg_list = &sges[n], .num_sge = 1};
		if (n)
			wrs[n - 1].next = &wrs[n];
	}
	must(n && !ibv_post_recv(qp, wrs, &bad));
}

// begin_wr begins a request: its number is the place of its copy.
static char *begin_wr(void)
{
	must(unused_count);
	ex->wr_id = unused[--unused_count];
	ex->wr_flags = IBV_SEND_SIGNALED;
	return (char *)arena->addr + (size_t)stride * (rq + ex->wr_id);
}

// send_one adds a packet: bytes of the alphabet, then n of a region.
static void send_one(uint32_t bytes, long long imm, int region, uint64_t off, uint32_t n)
{
	char *copy = begin_wr();
	for (uint32_t i = 0; i < bytes; i++)
		copy[i] = 'a' + i % 26;
	if (imm >= 0)
		ibv_wr_send_imm(ex, htobe32((uint32_t)imm));
	else
		ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ahs[0], qp->qp_num, qkey);
	if (!n && bytes <= in_line) {
		ibv_wr_set_inline_data(ex, copy, bytes);
		return;
	}
	struct ibv_sge list[2];
	int count = 0;
	if (bytes)
		list[count++] = (struct ibv_sge){(uintptr_t)copy, bytes, arena->lkey};
	if (n)
		list[count++] = (struct ibv_sge){(uintptr_t)regions[region]->addr + off, n, regions[region]->lkey};
	ibv_wr_set_sge_list(ex, count, list);
}

static void sends(const char *args)
{
	uint32_t count, bytes, n;
	long long imm;
	int region;
	unsigned long off;
	int got = sscanf(args, "%u %u %lli %d %lu %u", &count, &bytes, &imm, &region, &off, &n);
	must(got == 6);
	ibv_wr_start(ex);
	while (count--)
		send_one(bytes, imm, region, off, n);
	must(!ibv_wr_complete(ex));
}

static void rdma(const char *args, bool write)
{
	uint32_t bytes;
	int local, remote;
	unsigned long off, at;
	long long imm;
	int got = sscanf(args, "%u %d %lu %d %lu %lli", &bytes, &local, &off, &remote, &at, &imm);
	must(got == 6);
	uint64_t addr = (uintptr_t)regions[remote]->addr + at;
	uint32_t rkey = regions[remote]->rkey;
	ibv_wr_start(ex);
	begin_wr();
	if (!write)
		ibv_wr_rdma_read(ex, rkey, addr);
	else if (imm < 0)
		ibv_wr_rdma_write(ex, rkey, addr);
	else
		ibv_wr_rdma_write_imm(ex, rkey, addr, htobe32((uint32_t)imm));
	ibv_wr_set_ud_addr(ex, ahs[0], qp->qp_num, qkey);
	ibv_wr_set_sge(ex, regions[local]->lkey, (uintptr_t)regions[local]->addr + off, bytes);
	must(!ibv_wr_complete(ex));
}

static void polls(const char *args, int line)
{
	for (int n = atoi(args); n; n--) {
		struct ibv_wc wc = good(cq);
		if (!(wc.wr_id & receive))
			unused[unused_count++] = wc.wr_id;
		mark(line);
	}
}

static void wait_event(void)
{
	struct ibv_cq *which;
	void *context;
	struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
	must(poll(&ready, 1, (int)(PATIENCE * 1000)) == 1);
	must(!ibv_get_cq_event(channel, &which, &context) && which == cq);
	ibv_ack_cq_events(cq, 1);
}

static bool is(const char *line, const char *verb, const char **args)
{
	size_t n = strlen(verb);
	*args = line + n;
	return !strncmp(line, verb, n) && strchr(" \n", line[n]);
}

static void play(const char *text, int line)
{
	const char *args;
	if (is(text, "open", &args)) {
		open_all();
	} else if (is(text, "qp", &args)) {
		open_qp(args);
	} else if (is(text, "region", &args)) {
		char *rest;
		size_t bytes = strtoul(args, &rest, 0);
		regions[region_count++] = memory(bytes, atoi(rest));
	} else if (is(text, "ah", &args)) {
		must(ahs[ah_count++] = create_ah(pd, d.gid));
	} else if (is(text, "unah", &args)) {
		must(!ibv_destroy_ah(ahs[--ah_count]));
	} else if (is(text, "recv", &args)) {
		post_recvs(args);
	} else if (is(text, "send", &args)) {
		sends(args);
	} else if (is(text, "read", &args)) {
		rdma(args, false);
	} else if (is(text, "write", &args)) {
		rdma(args, true);
	} else if (is(text, "poll", &args)) {
		polls(args, line);
		return;
	} else if (is(text, "arm", &args)) {
		must(!ibv_req_notify_cq(cq, 0));
	} else if (is(text, "wait", &args)) {
		wait_event();
	} else if (is(text, "unqp", &args)) {
		close_qp();
	} else if (is(text, "unregion", &args)) {
		forget(regions[--region_count]);
	} else if (is(text, "close", &args)) {
		must(!ibv_dealloc_pd(pd));
		close_device(&d);
		return;
	} else {
		must(text[0] == '#', ": line %d: %s", line, text);
		return;
	}
	mark(line);
}

int main(int argc, char **argv)
{
	char text[256];
	begin();
	must(argc == 2);
	FILE *f = fopen(argv[1], "r");
	must(f);
	for (int line = 1; fgets(text, sizeof(text), f); line++)
		play(text, line);
	must(!fclose(f));
	return 0;
}
