// Mistakes that a program can make through libibverbs, and their errors.
#include "ends.h"

static struct device d;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp_init_attr usual(void)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
	};
}

static struct ibv_qp *create(struct ibv_qp_init_attr attr)
{
	return efadv_create_driver_qp(pd, &attr, EFADV_QP_DRIVER_TYPE_SRD);
}

static void no_qp(const char *what, struct ibv_qp_init_attr attr)
{
	step("qp: %s: %s", what, name(outcome(create(attr))));
}

static void qps(void)
{
	struct ibv_qp_init_attr attr = usual();
	attr.cap.max_send_wr = d.efa.max_sq_wr + 1;
	no_qp("more sends than there can be", attr);
	attr = usual();
	attr.cap.max_recv_wr = d.efa.max_rq_wr + 1;
	no_qp("more receives", attr);
	attr = usual();
	attr.cap.max_send_sge = d.efa.max_sq_sge + 1u;
	no_qp("more pieces of a send", attr);
	attr = usual();
	attr.cap.max_recv_sge = d.efa.max_rq_sge + 1u;
	no_qp("more pieces of a receive", attr);
	attr = usual();
	attr.cap.max_inline_data = d.efa.inline_buf_size + 1u;
	no_qp("more bytes inline", attr);
	attr = usual();
	attr.recv_cq = NULL;
	no_qp("no queue for receives", attr);
	attr = usual();
	attr.qp_type = IBV_QPT_RC;
	step("qp: reliable connection: %s", name(outcome(ibv_create_qp(pd, &attr))));
	attr = usual();
	step("qp: driver type 1: %s", name(outcome(efadv_create_driver_qp(pd, &attr, 1))));
}

static void cqs(void)
{
	step("cq: more entries than there can be: %s",
	     name(outcome(ibv_create_cq(d.context, d.attr.orig_attr.max_cqe + 1, NULL, NULL, 0))));
	step("cq: a vector that isn't there: %s",
	     name(outcome(ibv_create_cq(d.context, 16, NULL, NULL, d.context->num_comp_vectors))));
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	step("cq: time stamps: %s", name(outcome(ibv_create_cq_ex(d.context, &attr))));
	attr.wc_flags = 0;
	struct efadv_cq_init_attr efa = {.wc_flags = 1 << 7};
	step("cq: flags of efa to come: %s", name(outcome(efadv_create_cq(d.context, &attr, &efa, sizeof(efa)))));
}

static const struct {
	const char *what;
	enum ibv_qp_state from, to; // RESET: the queue pair is new
	int mask;
	uint8_t port, pkey;
} wrong[] = {
	{"to INIT without a qkey", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, 1, 0},
	{"to INIT without a port", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, 1, 0},
	{"to INIT with access flags", IBV_QPS_RESET, IBV_QPS_INIT,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS, 1, 0},
	{"to INIT with a path mtu", IBV_QPS_RESET, IBV_QPS_INIT,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_PATH_MTU, 1, 0},
	{"to INIT with a psn", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN, 1, 0},
	{"to INIT on port 2", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 2, 0},
	{"to INIT with pkey 1", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 1, 1},
	{"RESET to RTR", IBV_QPS_RESET, IBV_QPS_RTR, 0, 1, 0},
	{"RESET to RTS", IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_SQ_PSN, 1, 0},
	{"RESET to ERR", IBV_QPS_RESET, IBV_QPS_ERR, 0, 1, 0},
	{"INIT to RTS", IBV_QPS_INIT, IBV_QPS_RTS, IBV_QP_SQ_PSN, 1, 0},
	{"INIT to RTR with a psn", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_SQ_PSN, 1, 0},
	{"RTR to RTS without a psn", IBV_QPS_RTR, IBV_QPS_RTS, 0, 1, 0},
	{"RTR to SQD", IBV_QPS_RTR, IBV_QPS_SQD, 0, 1, 0},
	{"RTS to INIT", IBV_QPS_RTS, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 1, 0},
	{"RTS to RTS with a psn", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_SQ_PSN, 1, 0},
	{"RTS to RTS with rnr retries", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_RNR_RETRY, 1, 0},
};

// state_of takes a new queue pair to a state.
static void state_of(struct ibv_qp *qp, enum ibv_qp_state state)
{
	if (state >= IBV_QPS_INIT)
		must(!modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0));
	if (state >= IBV_QPS_RTR)
		must(!modify(qp, IBV_QPS_RTR, 0, 0));
	if (state >= IBV_QPS_RTS)
		must(!modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN, 0));
}

static void modifications(void)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct ibv_qp *qp = create(usual());
		must(qp);
		state_of(qp, wrong[i].from);
		struct ibv_qp_attr attr = {
			.qp_state = wrong[i].to, .port_num = wrong[i].port, .pkey_index = wrong[i].pkey, .qkey = QKEY};
		int got = ibv_modify_qp(qp, &attr, IBV_QP_STATE | wrong[i].mask);
		struct ibv_qp_init_attr init;
		must(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
		must(attr.qp_state == wrong[i].from, ": %d", attr.qp_state);
		step("modify: %s: %s", wrong[i].what, name(got));
		must(!ibv_destroy_qp(qp));
	}
	struct ibv_qp *qp = create(usual());
	must(qp);
	state_of(qp, IBV_QPS_RTS);
	must(!modify(qp, IBV_QPS_SQD, 0, 0) && !modify(qp, IBV_QPS_RTS, 0, 0) && !modify(qp, IBV_QPS_RTS, IBV_QP_QKEY, 0));
	must(!modify(qp, IBV_QPS_ERR, 0, 0) && !modify(qp, IBV_QPS_RESET, 0, 0));
	step("modify: RTS to SQD to RTS to ERR to RESET");
	must(!ibv_destroy_qp(qp));
}

static void posts(void)
{
	struct ibv_qp *qp = create(usual());
	must(qp);
	uint8_t byte[3];
	struct ibv_sge list[3] = {{(uintptr_t)&byte[0], 1, 1}, {(uintptr_t)&byte[1], 1, 1}, {(uintptr_t)&byte[2], 1, 1}};
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = list, .num_sge = 1};
	struct ibv_ah *ah = create_ah(pd, d.gid);
	must(ah);
	struct ibv_send_wr *bad, send = {.sg_list = list, .num_sge = 1, .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED, .wr.ud = {ah, 1, 1}};
	step("post: receive in RESET: %s", name(ibv_post_recv(qp, &recv, &bad_recv)));
	step("post: send in RESET: %s", name(ibv_post_send(qp, &send, &bad)));
	state_of(qp, IBV_QPS_RTS);
	recv.num_sge = 2;
	step("post: receive with too many pieces: %s", name(ibv_post_recv(qp, &recv, &bad_recv)));
	send.num_sge = 2;
	step("post: send with too many pieces: %s", name(ibv_post_send(qp, &send, &bad)));
	send.num_sge = 1;
	send.opcode = IBV_WR_RDMA_WRITE;
	step("post: an opcode of others: %s", name(ibv_post_send(qp, &send, &bad)));
	send.opcode = IBV_WR_SEND;
	send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
	step("post: flags of others: %s", name(ibv_post_send(qp, &send, &bad)));
	struct ibv_wc wc;
	must(!ibv_poll_cq(cq, 1, &wc));
	must(!ibv_destroy_qp(qp));
	must(!ibv_destroy_ah(ah));
}

// fill_up makes objects until there are no more, frees one, makes one, frees all.
#define fill_up(what, most, type, make, destroy)                                        \
	do {                                                                            \
		type **all = calloc((size_t)(most) + 1, sizeof(*all));                  \
		int n = 0, error;                                                       \
		while (!(error = outcome(all[n] = (make))))                             \
			must(++n <= (most));                                            \
		must(n == (most), ": %d of %d", n, (most));                             \
		must(!destroy(all[0]) && (all[0] = (make)));                            \
		while (n)                                                               \
			must(!destroy(all[--n]));                                       \
		free(all);                                                              \
		step("limit: %s: %s after the last, and again after one is free", what, \
		     name(error));                                                      \
	} while (0)

static struct ibv_ah *handle(int n)
{
	union ibv_gid gid = d.gid;
	gid.raw[8] ^= (uint8_t)n;
	gid.raw[9] ^= (uint8_t)(n >> 8);
	return create_ah(pd, gid);
}

static void limits(void)
{
	struct ibv_device_attr *a = &d.attr.orig_attr;
	fill_up("pd", a->max_pd - 1, struct ibv_pd, ibv_alloc_pd(d.context), ibv_dealloc_pd);
	fill_up("cq", a->max_cq - 1, struct ibv_cq, ibv_create_cq(d.context, 1, NULL, NULL, 0), ibv_destroy_cq);
	if (a->max_qp > 16) // these take their time
		return;
	int turn = 0;
	static uint8_t memory[8192];
	fill_up("qp", a->max_qp, struct ibv_qp, create(usual()), ibv_destroy_qp);
	fill_up("ah", a->max_ah, struct ibv_ah, handle(turn++), ibv_destroy_ah);
	fill_up("mr", a->max_mr, struct ibv_mr, ibv_reg_mr(pd, memory, 100, 0), ibv_dereg_mr);
}

int main(void)
{
	begin();
	d = open_device();
	pd = ibv_alloc_pd(d.context);
	cq = ibv_create_cq(d.context, 256, NULL, NULL, 0);
	must(pd && cq);
	qps();
	cqs();
	modifications();
	posts();
	limits();
	must(!ibv_destroy_cq(cq));
	must(!ibv_dealloc_pd(pd));
	close_device(&d);
	step("close");
	return 0;
}
