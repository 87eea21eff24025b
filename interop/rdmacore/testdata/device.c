// A device's description of itself: its list entry, limits, port, address, and the
// channel of asynchronous events.
#include "ends.h"

static void attributes(struct device *d)
{
	struct ibv_device_attr *a = &d->attr.orig_attr;
	step("device: part %#x, %d port", a->vendor_part_id, a->phys_port_cnt);
	step("device: max_qp %d, max_qp_wr %d, max_sge %d, max_sge_rd %d", a->max_qp, a->max_qp_wr, a->max_sge,
	     a->max_sge_rd);
	step("device: max_cq %d, max_cqe %d, max_mr %d, max_pd %d, max_ah %d", a->max_cq, a->max_cqe, a->max_mr,
	     a->max_pd, a->max_ah);
	must(a->vendor_id == 0x1d0f, ": %#x", a->vendor_id);
	must(a->page_size_cap & 4096, ": %#lx", a->page_size_cap);
	must(a->max_mr_size >= 1ul << 32, ": %#lx", a->max_mr_size);
	must(d->context->num_comp_vectors > 0);
	struct ibv_device_attr plain;
	must(!ibv_query_device(d->context, &plain));
	must(plain.max_qp == a->max_qp && plain.max_qp_wr == a->max_qp_wr && plain.max_cqe == a->max_cqe);
	step("device: the old query agrees");
}

static void efa(struct device *d)
{
	step("efa: sq %u x %u, rq %u x %u, inline %u", d->efa.max_sq_wr, d->efa.max_sq_sge, d->efa.max_rq_wr,
	     d->efa.max_rq_sge, d->efa.inline_buf_size);
	step("efa: rdma read %s, rnr retry %s, sgid %s",
	     d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ ? "yes" : "no",
	     d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY ? "yes" : "no",
	     d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID ? "yes" : "no");
	step("efa: max_rdma_size %u", d->efa.max_rdma_size);
}

static void port(struct device *d)
{
	step("port: %s, mtu %u, %d gid, %d pkey", ibv_port_state_str(d->port.state), d->mtu, d->port.gid_tbl_len,
	     d->port.pkey_tbl_len);
	struct ibv_port_attr other;
	must(ibv_query_port(d->context, 2, &other) == EINVAL);
	step("port 2: EINVAL");
}

static void address(struct device *d)
{
	struct ibv_gid_entry entry;
	must(!ibv_query_gid_ex(d->context, 1, 0, &entry, 0));
	must(!memcmp(&entry.gid, &d->gid, sizeof(d->gid)));
	const union ibv_gid zero = {};
	must(memcmp(&zero, &d->gid, sizeof(zero)));
	step("gid: both queries agree");
	union ibv_gid other;
	must(ibv_query_gid(d->context, 1, 1, &other));
	step("gid 1: none");
	__be16 pkey = 0;
	must(!ibv_query_pkey(d->context, 1, 0, &pkey));
	step("pkey 0: %#x", be16toh(pkey));
}

static void async(struct device *d)
{
	int fd = d->context->async_fd;
	must(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	must(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	struct ibv_async_event event;
	must(ibv_get_async_event(d->context, &event) && errno == EAGAIN);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	must(!poll(&p, 1, 0));
	step("async: no event");
}

int main(void)
{
	begin();
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	must(list && n == 1, ": %d", n);
	step("list: %s, %s, %s", ibv_get_device_name(list[0]), list[0]->dev_name,
	     ibv_node_type_str(list[0]->node_type));
	ibv_free_device_list(list);

	struct device d = open_device();
	step("open");
	attributes(&d);
	efa(&d);
	port(&d);
	address(&d);
	async(&d);
	struct device second = open_device();
	must(!memcmp(&second.gid, &d.gid, sizeof(d.gid)));
	step("open again: the same address");
	close_device(&d);
	must(!ibv_query_device_ex(second.context, NULL, &second.attr));
	step("close: the other stays open");
	close_device(&second);
	step("close");
	return 0;
}
