/* The command loop. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

enum {
	STUCK = 45,          /* seconds after which a call into libfabric is given up, and the program */
	BUSY_NS = 1000000,   /* after something has happened it does not sleep for so long */
	NAP_MS = 1,
};

/* do_pause does nothing, not even progress. */
static int do_pause(const struct words *c)
{
	usleep((useconds_t)word_number(c, "ms", 0) * 1000);
	return reply_ok("%s", "");
}

static const struct {
	const char *verb;
	int (*act)(const struct words *);
	int endpoint; /* needs one */
} commands[] = {
	{"open", do_open, 0},       {"close", do_close, 0},     {"insert", do_insert, 1},
	{"remove", do_remove, 1},   {"lookup", do_lookup, 1},   {"setopt", do_setopt, 1},
	{"region", do_region, 1},   {"unregister", do_unregister, 0}, {"fill", do_fill, 0},
	{"check", do_check, 0},     {"set", do_set, 0},         {"get", do_get, 0},
	{"send", do_send, 1},       {"recv", do_recv, 1},       {"tsend", do_tsend, 1},
	{"trecv", do_trecv, 1},     {"write", do_write, 1},     {"read", do_read, 1},
	{"atomic", do_atomic, 1},   {"fetch", do_fetch, 1},     {"compare", do_compare, 1},
	{"cancel", do_cancel, 1},   {"counters", do_counters, 1}, {"flood", do_flood, 1},
	{"plan", do_plan, 0},       {"pause", do_pause, 0},
};

static char line[1 << 16]; /* of a command, and what follows */
static size_t filled;
static char last[64]; /* the latest command, for stuck */

static void stuck(int sig)
{
	static const char text[] = "\n* stuck command=";
	ssize_t r;

	(void)sig;
	r = write(STDOUT_FILENO, text, sizeof(text) - 1);
	r = write(STDOUT_FILENO, last, strlen(last));
	r = write(STDOUT_FILENO, "\n", 1);
	(void)r;
	_exit(3);
}

static void command(char *text)
{
	struct words c;

	words_split(&c, text);
	strncpy(last, c.verb, sizeof(last) - 1);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].verb, c.verb) != 0)
			continue;
		if (commands[i].endpoint && !agent.open)
			reply_wrong("no endpoint is open");
		else
			commands[i].act(&c);
		fflush(stdout);
		strcpy(last, "progress");
		return;
	}
	reply_wrong("no command %s", c.verb);
	fflush(stdout);
}

/* take carries out the commands that are there whole; 1 for the one that ends all. */
static int take(void)
{
	char *end;

	while ((end = memchr(line, '\n', filled)) != NULL) {
		size_t n = (size_t)(end - line) + 1;
		static char text[sizeof(line)];

		memcpy(text, line, n);
		text[n - 1] = '\0';
		memmove(line, line + n, filled - n);
		filled -= n;
		if (strcmp(text, "quit") == 0)
			return 1;
		command(text);
	}
	return 0;
}

/* input reads what there is; how much, or -1 at the end. */
static ssize_t input(int wait_ms)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	ssize_t n;

	if (poll(&p, 1, wait_ms) <= 0)
		return 0;
	n = read(STDIN_FILENO, line + filled, sizeof(line) - filled);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0)
		return -1;
	filled += (size_t)n;
	return n;
}

int main(void)
{
	uint64_t busy_until = 0;
	struct words none = {.n = 0};
	ssize_t n = 0;

	signal(SIGALRM, stuck);
	signal(SIGPIPE, SIG_IGN);
	printf("* ready version=%s pid=%d\n", fi_tostr("", FI_TYPE_VERSION), (int)getpid());
	fflush(stdout);
	for (;;) {
		int did, live;

		alarm(STUCK);
		did = progress();
		live = floods_step();
		n = input(did || live || now_ns() < busy_until ? 0 : NAP_MS);
		if (n < 0)
			break;
		if (n > 0 && take())
			break;
		if (did || n > 0)
			busy_until = now_ns() + BUSY_NS;
		else
			sched_yield();
	}
	words_split(&none, (char[]){"close domain"});
	do_close(&none);
	fflush(stdout);
	return 0;
}
