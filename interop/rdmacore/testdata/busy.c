// A program in full swing, to be killed from outside: two processes that send to
// themselves and to each other until then. Both print their process numbers once
// they are under way.
#include "talk.h"

static const char *role = "child";

static void swing(int fd)
{
	struct device d = open_device();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d.context);
	must(channel);
	bool read = d.efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	struct end *e = open_end(&d, (struct options){.channel = channel, .read = read, .bytes = 1 << 20,
						      .access = read ? IBV_ACCESS_REMOTE_READ : 0, .rnr_retry = 7});
	struct card other = exchange_cards(fd, e);
	struct target to[2] = {aim(e, e), aim_at(e, &other)};
	for (int i = 0; i < 32; i++)
		post_recv(e, 100 + (uint64_t)i, (size_t)i * 16384, 8000);
	uint64_t count = 0;
	for (int i = 0; i < 20; i++)
		post_bytes(e, &to[i % 2], (uint64_t)(i % 2), 0, 8000);
	for (;;) {
		struct ibv_wc wc = next(e->cq);
		if (wc.opcode == IBV_WC_RECV)
			post_recv(e, wc.wr_id, (wc.wr_id - 100) * 16384, 8000);
		else
			post_bytes(e, &to[wc.wr_id], wc.wr_id, 0, 8000);
		if (++count == 1000) {
			printf("%s %d\n", role, getpid());
			fflush(stdout);
		}
	}
}

int main(void)
{
	begin();
	int fd;
	child(swing, &fd);
	role = "parent";
	swing(fd);
}
