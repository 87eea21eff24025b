// Two processes: messages of every kind to and fro, both ways at once, and reads of
// each other's memory.
#include "talk.h"

#define BULK 3000
#define WINDOW 32

static struct end *e;
static struct card other;
static struct target to;

static void open_pair(int fd, struct device *d)
{
	*d = open_device();
	bool read = d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	e = open_end(d, (struct options){.read = read,
					 .access = read ? IBV_ACCESS_REMOTE_READ : 0,
					 .bytes = 4 << 20,
					 .rnr_retry = 7});
	other = exchange_cards(fd, e);
	to = aim_at(e, &other);
	meet(fd);
}

static void close_pair(int fd, struct device *d)
{
	meet(fd);
	unaim(&to);
	close_end(e);
	close_device(d);
}

static size_t size_of(int turn, uint32_t mtu)
{
	return turn % 5 ? (size_t)turn * 37 % (mtu + 1) : mtu;
}

// await waits for one send and one receive of this end, in whatever order.
static void await(size_t bytes, uint32_t imm)
{
	for (int seen = 0; seen != 3;) {
		struct ibv_wc wc = good(e->cq);
		must(!(seen & (wc.opcode == IBV_WC_RECV ? 1 : 2)));
		seen |= wc.opcode == IBV_WC_RECV ? 1 : 2;
		if (wc.opcode == IBV_WC_RECV)
			must(wc.byte_len == bytes && be32toh(wc.imm_data) == imm && wc.src_qp == other.qpn,
			     ": %u bytes of %zu, %u of %u", wc.byte_len, bytes, be32toh(wc.imm_data), imm);
	}
}

static void ping(bool caller, uint32_t mtu)
{
	for (int i = 0; i < 200; i++) {
		size_t n = size_of(i, mtu);
		struct message m = {.at = {65536}, .bytes = {(uint32_t)n}, .pieces = 1, .has_imm = true, .imm = (uint32_t)i};
		m.in_line = n <= 32;
		post_recv(e, 1, 0, mtu);
		if (caller) {
			fill(e->memory + 65536, n, (uint32_t)i);
			must(!post(e, &to, &m));
			await(n, (uint32_t)i);
			must(same(e->memory, n, (uint32_t)i + 1));
			continue;
		}
		struct ibv_wc wc = good(e->cq);
		must(wc.opcode == IBV_WC_RECV && wc.byte_len == n && same(e->memory, n, (uint32_t)i));
		fill(e->memory + 65536, n, (uint32_t)i + 1);
		must(!post(e, &to, &m));
		must(good(e->cq).opcode == IBV_WC_SEND);
	}
}

// bulk sends many messages while as many come.
static void bulk(uint32_t mtu)
{
	int posted = 0, sent = 0, received = 0, expected = 0;
	static bool seen[BULK];
	for (; expected < WINDOW; expected++)
		post_recv(e, (uint64_t)expected, (size_t)expected * mtu, mtu);
	while (sent < BULK || received < BULK) {
		for (; posted < BULK && posted - sent < WINDOW; posted++) {
			struct message m = {.at = {(2 << 20)}, .bytes = {mtu}, .pieces = 1, .has_imm = true, .imm = (uint32_t)posted};
			must(!post(e, &to, &m));
		}
		struct ibv_wc wc = good(e->cq);
		if (wc.opcode == IBV_WC_SEND) {
			sent++;
			continue;
		}
		uint32_t number = be32toh(wc.imm_data);
		must(number < BULK && !seen[number] && wc.byte_len == mtu);
		seen[number] = true;
		must(same(e->memory + wc.wr_id * mtu, mtu, 55));
		received++;
		if (expected++ < BULK)
			post_recv(e, wc.wr_id, wc.wr_id * mtu, mtu);
	}
}

static void read_back(int fd)
{
	size_t half = e->bytes / 2, most = e->device->efa.max_rdma_size, bytes = half < most ? half : most;
	fill(e->memory + half, half, 77);
	meet(fd);
	for (int i = 0; i < 4; i++) {
		ibv_wr_start(e->qp_ex);
		e->qp_ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(e->qp_ex, other.rkey, other.address + half);
		ibv_wr_set_ud_addr(e->qp_ex, to.ah, to.qpn, to.qkey);
		ibv_wr_set_sge(e->qp_ex, e->mr->lkey, (uintptr_t)e->memory, (uint32_t)bytes);
		must(!ibv_wr_complete(e->qp_ex));
		good(e->cq);
		must(same(e->memory, bytes, 77));
		memset(e->memory, 0, bytes);
	}
	meet(fd);
}

static void caller(int fd)
{
	struct device d;
	open_pair(fd, &d);
	step("both are there");
	ping(true, d.mtu);
	step("200 messages to and fro");
	fill(e->memory + (2 << 20), d.mtu, 55);
	meet(fd);
	bulk(d.mtu);
	step("%d messages both ways at once", BULK);
	meet(fd);
	if (e->qp_ex) {
		read_back(fd);
		step("read each other's memory");
	}
	close_pair(fd, &d);
	step("close");
}

static void listener(int fd)
{
	struct device d;
	open_pair(fd, &d);
	ping(false, d.mtu);
	fill(e->memory + (2 << 20), d.mtu, 55);
	meet(fd);
	bulk(d.mtu);
	meet(fd);
	if (e->qp_ex)
		read_back(fd);
	close_pair(fd, &d);
}

int main(int argc, char **argv)
{
	begin();
	play(argc, argv, caller, listener);
	return 0;
}
