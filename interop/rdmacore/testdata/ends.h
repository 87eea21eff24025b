// The ends of a conversation: an open device, queue pairs on it, and what they post.
#pragma once

#include "step.h"
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define QKEY 0x11223344

// A device that is open, with what it says of itself.
struct device {
	struct ibv_context *context;
	struct ibv_device_attr_ex attr;
	struct efadv_device_attr efa;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint32_t mtu;
};

static inline struct device open_device(void)
{
	struct device d = {};
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	must(list && n == 1, ": %d devices", n);
	d.context = ibv_open_device(list[0]);
	must(d.context);
	ibv_free_device_list(list);
	must(!ibv_query_device_ex(d.context, NULL, &d.attr));
	must(!efadv_query_device(d.context, &d.efa, sizeof(d.efa)));
	must(!ibv_query_port(d.context, 1, &d.port));
	must(!ibv_query_gid(d.context, 1, 0, &d.gid));
	d.mtu = d.port.max_msg_sz;
	return d;
}

static inline void close_device(struct device *d)
{
	must(!ibv_close_device(d->context));
}

// Options of an end; what is zero gets a default.
struct options {
	struct ibv_pd *pd;
	struct ibv_cq *cq; // of somebody else
	struct ibv_comp_channel *channel;
	enum ibv_qp_type type; // IBV_QPT_DRIVER: SRD
	uint32_t sq, rq;       // depths
	uint32_t pieces;       // of a receive
	size_t bytes;          // of memory
	int access;
	bool read;	  // through ibv_wr_rdma_read
	bool sgid;	  // in completions
	bool ex;	  // a queue pair for ibv_wr_*
	uint8_t rnr_retry; // 0 is 0
};

// An end of a conversation: a queue pair with its completion queue and memory.
struct end {
	struct device *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex; // of sgid
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex; // of ex
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t bytes;
	bool own_pd, own_cq;
};

static inline int modify(struct ibv_qp *qp, enum ibv_qp_state state, int mask, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = QKEY, .rnr_retry = rnr_retry};
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

// to_rts takes a queue pair from RESET to RTS. SRD has a number of retries, if the
// device lets it be chosen.
static inline void to_rts(struct device *d, struct ibv_qp *qp, uint8_t rnr_retry)
{
	bool chosen = d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY && qp->qp_type == IBV_QPT_DRIVER;
	int retry = chosen ? IBV_QP_RNR_RETRY : 0;
	must(!modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0));
	must(!modify(qp, IBV_QPS_RTR, 0, 0));
	must(!modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN | retry, rnr_retry));
}

static inline struct ibv_qp *create_qp(struct end *e, const struct options *o)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {
			.max_send_wr = o->sq ? o->sq : 64,
			.max_recv_wr = o->rq ? o->rq : 64,
			.max_send_sge = e->device->efa.max_sq_sge,
			.max_recv_sge = o->pieces ? o->pieces : 1,
			.max_inline_data = e->device->efa.inline_buf_size,
		},
		.qp_type = o->type ? o->type : IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};
	if (o->ex || o->read) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (o->read)
			attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	}
	if (attr.qp_type == IBV_QPT_UD)
		return ibv_create_qp_ex(e->device->context, &attr);
	struct efadv_qp_init_attr srd = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	return efadv_create_qp_ex(e->device->context, &attr, &srd, sizeof(srd));
}

static inline struct ibv_cq_ex *create_cq_ex(struct end *e, const struct options *o, uint32_t depth)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = depth, .cq_context = e, .channel = o->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	return efadv_create_cq(e->device->context, &attr, &efa, sizeof(efa));
}

// open_end makes an end whose queue pair is in RTS.
static inline struct end *open_end(struct device *d, struct options o)
{
	struct end *e = calloc(1, sizeof(*e));
	must(e);
	e->device = d;
	e->own_pd = !o.pd;
	e->own_cq = !o.cq;
	e->pd = o.pd ? o.pd : ibv_alloc_pd(d->context);
	must(e->pd);
	uint32_t depth = 2 * ((o.sq > 64 ? o.sq : 64) + (o.rq > 64 ? o.rq : 64));
	if (o.cq) {
		e->cq = o.cq;
	} else if (o.sgid) {
		e->cq_ex = create_cq_ex(e, &o, depth);
		must(e->cq_ex);
		e->cq = ibv_cq_ex_to_cq(e->cq_ex);
		e->cq->cq_context = e; // libefa 44 forgets it
	} else {
		e->cq = ibv_create_cq(d->context, (int)depth, e, o.channel, 0);
		must(e->cq);
	}
	e->qp = create_qp(e, &o);
	must(e->qp);
	if (o.ex || o.read)
		e->qp_ex = ibv_qp_to_qp_ex(e->qp);
	to_rts(d, e->qp, o.rnr_retry);
	e->bytes = o.bytes ? o.bytes : 1 << 16;
	e->memory = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(e->memory != MAP_FAILED);
	e->mr = ibv_reg_mr(e->pd, e->memory, e->bytes, o.access | IBV_ACCESS_LOCAL_WRITE);
	must(e->mr);
	return e;
}

static inline void close_end(struct end *e)
{
	if (e->qp)
		must(!ibv_destroy_qp(e->qp));
	if (e->own_cq)
		must(!ibv_destroy_cq(e->cq));
	must(!ibv_dereg_mr(e->mr));
	if (e->own_pd)
		must(!ibv_dealloc_pd(e->pd));
	must(!munmap(e->memory, e->bytes));
	free(e);
}

// Where to send.
struct target {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
};

static inline struct ibv_ah *create_ah(struct ibv_pd *pd, union ibv_gid gid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .grh.dgid = gid, .port_num = 1};
	return ibv_create_ah(pd, &attr);
}

// aim makes another end of this device the target.
static inline struct target aim(struct end *from, struct end *to)
{
	struct target t = {create_ah(from->pd, to->device->gid), to->qp->qp_num, QKEY};
	must(t.ah);
	return t;
}

static inline void unaim(struct target *t)
{
	must(!ibv_destroy_ah(t->ah));
}

// Something to send: up to two pieces of the sender's memory.
struct message {
	uint64_t id;
	size_t at[2];
	uint32_t bytes[2];
	int pieces;
	uint32_t lkey; // 0: the sender's
	bool in_line, has_imm;
	uint32_t imm;
};

static inline int post(struct end *e, const struct target *to, const struct message *m)
{
	struct ibv_sge list[2];
	for (int i = 0; i < m->pieces; i++)
		list[i] = (struct ibv_sge){(uintptr_t)e->memory + m->at[i], m->bytes[i],
					   m->lkey ? m->lkey : e->mr->lkey};
	struct ibv_send_wr *bad, wr = {
		.wr_id = m->id,
		.sg_list = list,
		.num_sge = m->pieces,
		.opcode = m->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | (m->in_line ? IBV_SEND_INLINE : 0),
		.imm_data = htobe32(m->imm),
		.wr.ud = {to->ah, to->qpn, to->qkey},
	};
	return ibv_post_send(e->qp, &wr, &bad);
}

// post_bytes sends a piece of memory.
static inline void post_bytes(struct end *e, const struct target *to, uint64_t id, size_t at, uint32_t bytes)
{
	must(!post(e, to, &(struct message){.id = id, .at = {at}, .bytes = {bytes}, .pieces = 1}));
}

static inline void post_recv(struct end *e, uint64_t id, size_t at, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)e->memory + at, bytes, e->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
	must(!ibv_post_recv(e->qp, &wr, &bad));
}

// next waits for a completion, whatever its status.
static inline struct ibv_wc next(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;
	until((n = ibv_poll_cq(cq, 1, &wc)), );
	must(n == 1, ": %d", n);
	return wc;
}

// good waits for a completion that must be one of success.
static inline struct ibv_wc good(struct ibv_cq *cq)
{
	struct ibv_wc wc = next(cq);
	must(wc.status == IBV_WC_SUCCESS, ": %s, %u of the device, request %lu", ibv_wc_status_str(wc.status),
	     wc.vendor_err, wc.wr_id);
	return wc;
}

// quiet checks that there is no completion for a while.
static inline void quiet(struct ibv_cq *cq, double seconds)
{
	struct ibv_wc wc;
	for (double end = now() + seconds; now() < end; nap())
		must(!ibv_poll_cq(cq, 1, &wc), ": request %lu ended with %u", wc.wr_id, wc.vendor_err);
}
