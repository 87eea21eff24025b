// Messages between two queue pairs of one process, srd or ud: inline and from
// memory, one piece and two, with and without immediate, of every size.
#include "ends.h"

static struct end *a, *b;
static struct target to_b, to_a;
static size_t room; // verbs leave it in front of a datagram, and count it

// received checks one completion of b against what was sent.
static void received(struct ibv_wc wc, size_t bytes, bool has_imm)
{
	must(wc.opcode == IBV_WC_RECV && wc.byte_len == room + bytes, ": opcode %d, %u bytes, not %zu",
	     wc.opcode, wc.byte_len, room + bytes);
	must(wc.qp_num == b->qp->qp_num && wc.src_qp == a->qp->qp_num);
	must(!(wc.wc_flags & IBV_WC_WITH_IMM) == !has_imm);
	struct efadv_ah_attr back;
	must(!efadv_query_ah(to_a.ah, &back, sizeof(back)));
	must(wc.slid == back.ahn, ": handle %d, not %d", wc.slid, back.ahn);
}

static void sent(uint64_t id)
{
	struct ibv_wc wc = good(a->cq);
	must(wc.opcode == IBV_WC_SEND && wc.wr_id == id && wc.qp_num == a->qp->qp_num, ": opcode %d, request %lu",
	     wc.opcode, wc.wr_id);
}

// exchange sends one message and checks it at the other side, byte for byte and
// that nothing lies behind it.
static void exchange(struct message m)
{
	size_t bytes = 0, half = 1 << 15;
	for (int i = 0; i < m.pieces; i++) {
		fill(a->memory + m.at[i], m.bytes[i], m.imm + (uint32_t)i);
		bytes += m.bytes[i];
	}
	memset(b->memory, 0xee, room + bytes + 1);
	post_recv(b, m.imm, 0, (uint32_t)half);
	m.id = m.imm + 1000000ul;
	must(!post(a, &to_b, &m));
	sent(m.id);
	struct ibv_wc wc = good(b->cq);
	received(wc, bytes, m.has_imm);
	must(wc.wr_id == m.imm && (!m.has_imm || be32toh(wc.imm_data) == m.imm));
	for (size_t i = 0, at = room; i < (size_t)m.pieces; at += m.bytes[i++])
		must(same(b->memory + at, m.bytes[i], m.imm + (uint32_t)i), ": %zu bytes", bytes);
	must(b->memory[room + bytes] == 0xee);
}

static void in_line(void)
{
	uint32_t most = a->device->efa.inline_buf_size;
	for (uint32_t n = 0; n <= most; n++) {
		exchange((struct message){.bytes = {n}, .pieces = 1, .in_line = true, .imm = n});
		exchange((struct message){.bytes = {n}, .pieces = 1, .in_line = true, .imm = n + 77, .has_imm = true});
		exchange((struct message){.at = {0, 500}, .bytes = {n / 3, n - n / 3}, .pieces = 2, .in_line = true, .imm = n});
	}
	step("inline: 0 to %u bytes", most);
	struct message more = {.bytes = {most + 1}, .pieces = 1, .in_line = true};
	step("inline: one more: %s", name(post(a, &to_b, &more)));
}

static void sizes(void)
{
	uint32_t mtu = a->device->mtu;
	for (uint32_t n = 0; n < mtu; n += n < 70 ? 1 : 61)
		exchange((struct message){.at = {n % 64}, .bytes = {n}, .pieces = 1, .imm = n, .has_imm = n % 2});
	exchange((struct message){.bytes = {mtu}, .pieces = 1, .imm = 0xcafebabe, .has_imm = true});
	step("from memory: 0 to %u bytes", mtu);
	exchange((struct message){.pieces = 0, .imm = 5, .has_imm = true});
	step("from memory: no piece at all");
	for (uint32_t n = 2; n <= mtu; n = n < mtu && n * 2 > mtu ? mtu : n * 2)
		for (uint32_t cut = 0; cut <= n; cut += n / 2 ? n / 2 : 1)
			exchange((struct message){.at = {100, 20000}, .bytes = {cut, n - cut}, .pieces = 2, .imm = n + cut});
	step("from memory: two pieces");
}

// pieces receives into two pieces.
static void pieces(void)
{
	uint32_t mtu = a->device->mtu;
	static const uint32_t first[] = {1, 7, 100, 4096};
	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		for (int shape = 0; shape < 3; shape++) {
			uint32_t n = shape == 0 ? first[i] : shape == 1 ? first[i] + 1 : mtu;
			struct ibv_sge list[2] = {{(uintptr_t)b->memory, first[i], b->mr->lkey},
						  {(uintptr_t)b->memory + 30000, mtu + (uint32_t)room, b->mr->lkey}};
			struct ibv_recv_wr *bad, wr = {.wr_id = n, .sg_list = list, .num_sge = 2};
			must(!ibv_post_recv(b->qp, &wr, &bad));
			fill(a->memory, n, n);
			post_bytes(a, &to_b, 1, 0, n);
			sent(1);
			received(good(b->cq), n, false);
			for (size_t k = 0, at = room; k < n; k++, at++)
				must(a->memory[k] == b->memory[at < first[i] ? at : 30000 + at - first[i]]);
		}
	step("into two pieces");
}

// self sends to the queue pair itself.
static void self(void)
{
	struct target t = aim(a, a);
	post_recv(a, 1, 4096, 100 + (uint32_t)room);
	fill(a->memory, 100, 3);
	post_bytes(a, &t, 2, 0, 100);
	struct ibv_wc one = good(a->cq), two = good(a->cq);
	must(one.opcode != two.opcode && one.wr_id + two.wr_id == 3);
	must(same(a->memory + 4096 + room, 100, 3));
	unaim(&t);
	step("to itself");
}

int main(int argc, char **argv)
{
	begin();
	struct device d = open_device();
	bool ud = argc > 1 && !strcmp(argv[1], "ud");
	room = ud ? 40 : 0;
	struct options o = {.type = ud ? IBV_QPT_UD : IBV_QPT_DRIVER, .rq = 16, .pieces = 2};
	a = open_end(&d, o);
	b = open_end(&d, o);
	to_b = aim(a, b);
	to_a = aim(b, a);
	in_line();
	sizes();
	pieces();
	self();
	unaim(&to_a);
	unaim(&to_b);
	close_end(b);
	close_end(a);
	close_device(&d);
	step("close");
	return 0;
}
