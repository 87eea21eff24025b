// Whole lives, one after the other: again WARM TIMES. It reads a line after the
// first WARM lives and one after the TIMES that follow, so that a test can check
// the emulator in between.
//
// Each is a process: libefa 44 unmaps a completion queue's doorbell by its address
// and not by that of its page, which does nothing unless they are the same. The
// mapping that stays keeps the device's file open, here and with a real kernel.
#include "ends.h"
#include <sys/wait.h>

static void life(void)
{
	struct device d = open_device();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(d.context);
	must(channel);
	struct end *a = open_end(&d, (struct options){.channel = channel, .sgid = true});
	struct end *b = open_end(&d, (struct options){.type = IBV_QPT_UD});
	struct end *c = open_end(&d, (struct options){.pd = a->pd, .rnr_retry = 7});
	struct target to_a = aim(c, a), nowhere = aim(c, c);
	for (int i = 0; i < 8; i++)
		post_recv(a, (uint64_t)i, (size_t)i * 4096, 4096);
	for (int i = 0; i < 4; i++)
		post_bytes(c, &to_a, (uint64_t)i, 0, 4096);
	for (int i = 0; i < 4; i++) {
		good(c->cq);
		good(a->cq);
	}
	post_bytes(c, &nowhere, 9, 0, 100); // will wait for ever
	must(!ibv_destroy_qp(c->qp));
	c->qp = NULL;
	unaim(&to_a);
	unaim(&nowhere);
	close_end(c);
	close_end(b);
	close_end(a);
	must(!ibv_destroy_comp_channel(channel));
	close_device(&d);
}

static void lives(int n)
{
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid = fork();
		must(pid >= 0);
		if (!pid) {
			life();
			exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && !status, ": %#x", status);
	}
}

static void wait_for_line(void)
{
	char line[8];
	struct pollfd p = {.fd = 0, .events = POLLIN};
	must(poll(&p, 1, (int)(PATIENCE * 1000)) == 1);
	must(read(0, line, sizeof(line)) > 0);
}

int main(int argc, char **argv)
{
	begin();
	must(argc == 3);
	int warm = atoi(argv[1]), times = atoi(argv[2]);
	lives(warm);
	step("%d lives", warm);
	wait_for_line();
	lives(times);
	step("%d more", times);
	wait_for_line();
	return 0;
}
