// The other process is killed: what is under way ends, what comes later is refused,
// and this side lives on. "call PATH PID" kills that process, its supervisor, instead.
#include "talk.h"

static pid_t supervisor;
static bool can_read;

static void listener(int fd)
{
	struct device d = open_device();
	bool read = d.efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	struct end *e = open_end(&d, (struct options){.rnr_retry = 7, .bytes = 8 << 20, .access = read ? IBV_ACCESS_REMOTE_READ : 0});
	struct card other = exchange_cards(fd, e);
	struct target to = aim_at(e, &other);
	post_recv(e, 1, 0, 100);
	good(e->cq);
	post_bytes(e, &to, 2, 0, 100);
	meet(fd);
	char c;
	hear(fd, &c, 1); // that never comes
}

static void end_it(int fd, const struct card *other)
{
	must(!kill(supervisor ? supervisor : other->pid, SIGKILL));
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c;
	must(poll(&p, 1, (int)(PATIENCE * 1000)) == 1);
	must(recv(fd, &c, 1, 0) <= 0); // its end of the socket is closed
	close(fd);
}

static void post_read(struct end *e, struct target *to, struct card *other)
{
	uint32_t most = e->device->efa.max_rdma_size, bytes = most < e->bytes ? most : (uint32_t)e->bytes;
	ibv_wr_start(e->qp_ex);
	e->qp_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(e->qp_ex, other->rkey, other->address);
	ibv_wr_set_ud_addr(e->qp_ex, to->ah, to->qpn, to->qkey);
	ibv_wr_set_sge(e->qp_ex, e->mr->lkey, (uintptr_t)e->memory, bytes);
	must(!ibv_wr_complete(e->qp_ex));
}

// gone checks that a completion says that there is no such queue pair.
static void gone(struct end *e, const char *what)
{
	struct ibv_wc wc = next(e->cq);
	must(wc.vendor_err == 7 || wc.vendor_err == 8 || wc.vendor_err == 9 || wc.vendor_err == 13 || wc.vendor_err == 15,
	     ": %s: %u of the device", what, wc.vendor_err);
}

static void caller(int fd)
{
	struct device d = open_device();
	bool read = can_read = d.efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	struct end *e = open_end(&d, (struct options){.read = read, .bytes = 8 << 20, .rnr_retry = 7});
	struct card other = exchange_cards(fd, e);
	struct target to = aim_at(e, &other);
	post_recv(e, 1, 0, 100);
	post_bytes(e, &to, 2, 0, 100);
	good(e->cq);
	good(e->cq);
	meet(fd);
	step("it lives");

	for (int i = 0; i < 20; i++)
		post_bytes(e, &to, 3, 0, 100); // it has no receive posted
	quiet(e->cq, 0.02);
	end_it(fd, &other);
	step("it is killed");
	for (int i = 0; i < 20; i++)
		gone(e, "send");
	step("20 sends that waited for it end");
	post_bytes(e, &to, 4, 0, 100);
	gone(e, "send");
	step("a send ends");
	if (read) {
		post_read(e, &to, &other);
		gone(e, "read");
		step("a read ends");
	}
	struct target self = aim(e, e);
	post_recv(e, 1, 0, 100);
	post_bytes(e, &self, 2, 0, 100);
	good(e->cq);
	good(e->cq);
	step("this side lives");
	unaim(&self);
	unaim(&to);
	close_end(e);
	close_device(&d);
	step("close");
}

// reading kills the other process while it is read.
static void reading(int fd)
{
	struct device d = open_device();
	struct end *e = open_end(&d, (struct options){.read = true, .bytes = 8 << 20, .rnr_retry = 7});
	struct card other = exchange_cards(fd, e);
	struct target to = aim_at(e, &other);
	post_recv(e, 1, 0, 100);
	post_bytes(e, &to, 2, 0, 100);
	good(e->cq);
	good(e->cq);
	meet(fd);
	for (int i = 0; i < 60; i++)
		post_read(e, &to, &other);
	end_it(fd, &other);
	for (int i = 0; i < 60; i++)
		next(e->cq);
	quiet(e->cq, 0.01);
	step("60 reads under way: each ends once");
	unaim(&to);
	close_end(e);
	close_device(&d);
}

int main(int argc, char **argv)
{
	begin();
	supervisor = argc > 3 ? atoi(argv[3]) : 0;
	if (argc > 1) {
		play(argc, argv, caller, listener);
		return 0;
	}
	int fd, status;
	pid_t pid = child(listener, &fd);
	caller(fd);
	must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	if (!can_read)
		return 0;
	pid = child(listener, &fd);
	reading(fd);
	must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	return 0;
}
