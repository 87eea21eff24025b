// Completion queues and queue pairs of every kind: what is created, what its
// depths become, the way to RTS, what a query tells.
#include "ends.h"

static struct ibv_cq *cqs(struct device *d, struct ibv_comp_channel *channel)
{
	static const int asked[] = {1, 2, 3, 64, 100, 1000};
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked) && asked[i] <= d->attr.orig_attr.max_cqe; i++) {
		struct ibv_cq *cq = ibv_create_cq(d->context, asked[i], NULL, NULL, 0);
		must(cq);
		step("cq of %d: %d", asked[i], cq->cqe);
		must(!ibv_destroy_cq(cq));
	}
	struct ibv_cq *cq = ibv_create_cq(d->context, d->attr.orig_attr.max_cqe, NULL, NULL, 0);
	must(cq && cq->cqe == d->attr.orig_attr.max_cqe);
	must(!ibv_destroy_cq(cq));
	step("cq of max_cqe");
	for (int vector = 0; vector < d->context->num_comp_vectors; vector++) {
		int got = outcome(cq = ibv_create_cq(d->context, 16, NULL, channel, vector));
		step("cq with the channel, on vector %d: %s", vector, name(got));
		if (got)
			continue;
		must(cq->channel == channel);
		must(!ibv_destroy_cq(cq));
	}

	struct ibv_cq_init_attr_ex attr = {.cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(d->context, &attr);
	must(ex);
	step("cq_ex of 100: %d", ex->cqe);
	must(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	ex = efadv_create_cq(d->context, &attr, &efa, sizeof(efa));
	must(ex && efadv_cq_from_ibv_cq_ex(ex)->wc_read_sgid);
	must(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	step("efadv cq with sgid");
	cq = ibv_create_cq(d->context, d->attr.orig_attr.max_cqe, NULL, NULL, 0);
	must(cq);
	return cq;
}

static struct ibv_qp_init_attr init_attr(struct ibv_cq *cq, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 5, .max_recv_wr = 9, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 32},
		.qp_type = type,
		.sq_sig_all = 1,
	};
}

static void query(struct ibv_qp *qp, const char *what)
{
	struct ibv_qp_attr attr = {};
	struct ibv_qp_init_attr init = {};
	must(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_CAP, &init));
	must(init.send_cq == qp->send_cq && init.recv_cq == qp->recv_cq && init.qp_type == qp->qp_type);
	step("%s: state %d, qkey %#x, port %d, pkey index %d, wr %u/%u, sge %u/%u, inline %u", what, attr.qp_state,
	     attr.qkey, attr.port_num, attr.pkey_index, attr.cap.max_send_wr, attr.cap.max_recv_wr,
	     attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
}

static void walk(struct device *d, struct ibv_qp *qp, const char *what)
{
	char text[64];
	must(qp && qp->qp_num && qp->qp_num < 1 << 16);
	snprintf(text, sizeof(text), "%s in RESET", what);
	query(qp, text);
	must(!modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0));
	snprintf(text, sizeof(text), "%s in INIT", what);
	query(qp, text);
	must(!modify(qp, IBV_QPS_RTR, 0, 0));
	bool srd = qp->qp_type == IBV_QPT_DRIVER && d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
	must(!modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN | (srd ? IBV_QP_RNR_RETRY : 0), 3));
	snprintf(text, sizeof(text), "%s in RTS", what);
	query(qp, text);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	must(!ibv_query_qp(qp, &attr, IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN, &init));
	step("%s: rnr_retry %d, sq_psn %u", what, attr.rnr_retry, attr.sq_psn);
	step("%s: a query of its path: %s", what, name(ibv_query_qp(qp, &attr, IBV_QP_AV, &init)));
	must(!ibv_destroy_qp(qp));
}

static void qps(struct device *d, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr plain = init_attr(cq, IBV_QPT_DRIVER);
	struct ibv_qp *qp = efadv_create_driver_qp(pd, &plain, EFADV_QP_DRIVER_TYPE_SRD);
	must(qp);
	step("srd: 5/9 become %u/%u", plain.cap.max_send_wr, plain.cap.max_recv_wr);
	walk(d, qp, "srd");
	plain = init_attr(cq, IBV_QPT_UD);
	walk(d, ibv_create_qp(pd, &plain), "ud");

	struct ibv_qp_init_attr_ex attr = {};
	plain = init_attr(cq, IBV_QPT_DRIVER);
	memcpy(&attr, &plain, sizeof(plain)); // and its padding, so that the mask comes later
	attr.pd = pd;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
	struct efadv_qp_init_attr srd = {};
	qp = NULL;
	int got = outcome(qp = efadv_create_qp_ex(d->context, &attr, &srd, sizeof(srd)));
	step("srd with rdma read: %s", name(got));
	if (qp)
		walk(d, qp, "srd with rdma read");
	attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE;
	step("srd with rdma write: %s", name(outcome(efadv_create_qp_ex(d->context, &attr, &srd, sizeof(srd)))));
	attr.qp_type = IBV_QPT_UD;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = ibv_create_qp_ex(d->context, &attr);
	must(qp);
	must(!ibv_destroy_qp(qp));
	step("ud with ibv_wr");

	plain = init_attr(cq, IBV_QPT_DRIVER);
	plain.cap.max_send_wr = d->efa.max_sq_wr;
	plain.cap.max_recv_wr = d->efa.max_rq_wr / d->efa.max_rq_sge;
	plain.cap.max_recv_sge = d->efa.max_rq_sge;
	qp = efadv_create_driver_qp(pd, &plain, 0);
	must(qp);
	must(!ibv_destroy_qp(qp));
	step("srd of the greatest depths");
}

int main(void)
{
	begin();
	struct device d = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(d.context);
	must(pd);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d.context);
	must(channel);
	struct ibv_cq *cq = cqs(&d, channel);
	qps(&d, pd, cq);
	must(!ibv_destroy_cq(cq));
	must(!ibv_destroy_comp_channel(channel));
	must(!ibv_dealloc_pd(pd));
	close_device(&d);
	step("close");
	return 0;
}
