// Programs of two processes: one calls, one listens, and they tell each other over
// a Unix socket what they need to know.
#pragma once

#include "ends.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static inline void say(int fd, const void *p, size_t n)
{
	must(send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static inline void hear(int fd, void *p, size_t n)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	must(poll(&wait, 1, (int)(PATIENCE * 1000)) == 1);
	must(recv(fd, p, n, MSG_WAITALL) == (ssize_t)n);
}

// meet waits until the other side is there too.
static inline void meet(int fd)
{
	char c = '.';
	say(fd, &c, 1);
	hear(fd, &c, 1);
}

// The data that one side must have of the other.
struct card {
	union ibv_gid gid;
	uint64_t address;
	uint32_t qpn, rkey, bytes;
	pid_t pid;
};

static inline struct card exchange_cards(int fd, struct end *e)
{
	struct card mine = {e->device->gid, (uintptr_t)e->memory, e->qp->qp_num, e->mr->rkey,
			    (uint32_t)e->bytes, getpid()};
	struct card other;
	say(fd, &mine, sizeof(mine));
	hear(fd, &other, sizeof(other));
	return other;
}

static inline struct target aim_at(struct end *e, const struct card *c)
{
	struct target t = {create_ah(e->pd, c->gid), c->qpn, QKEY};
	must(t.ah);
	return t;
}

static inline struct sockaddr_un socket_at(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	must(strlen(path) < sizeof(at.sun_path));
	strcpy(at.sun_path, path);
	return at;
}

static inline int accept_at(const char *path)
{
	struct sockaddr_un at = socket_at(path);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	must(s >= 0 && !bind(s, (struct sockaddr *)&at, sizeof(at)) && !listen(s, 1));
	struct pollfd wait = {.fd = s, .events = POLLIN};
	must(poll(&wait, 1, (int)(PATIENCE * 1000)) == 1);
	int fd = accept(s, NULL, NULL);
	must(fd >= 0);
	close(s);
	return fd;
}

static inline int connect_at(const char *path)
{
	struct sockaddr_un at = socket_at(path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	must(fd >= 0);
	until(!connect(fd, (struct sockaddr *)&at, sizeof(at)), );
	return fd;
}

// child starts a process that listens; fd is this side's end.
static inline pid_t child(void (*listener)(int fd), int *fd)
{
	int ends[2];
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	pid_t pid = fork();
	must(pid >= 0);
	if (!pid) {
		close(ends[0]);
		begin();
		listener(ends[1]);
		exit(0);
	}
	close(ends[1]);
	*fd = ends[0];
	return pid;
}

// play runs both roles, or the one that the arguments name: "listen PATH" or
// "call PATH". Who listens says nothing but what goes wrong.
static inline void play(int argc, char **argv, void (*caller)(int fd), void (*listener)(int fd))
{
	if (argc > 2 && !strcmp(argv[1], "listen")) {
		listener(accept_at(argv[2]));
	} else if (argc > 2 && !strcmp(argv[1], "call")) {
		caller(connect_at(argv[2]));
	} else {
		int fd, status = 0;
		pid_t pid = child(listener, &fd);
		caller(fd);
		must(waitpid(pid, &status, 0) == pid && !status, ": %#x", status);
	}
}
