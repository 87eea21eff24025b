/* What the C programs share that fork: processes of their own, and a pair of sockets between the first
 * and each other one, through which the two tell each other what they must know. */
/* stream.h goes before this file. */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int yields; /* whether there are more processes than CPUs */

/* progress is the program's. */
static void progress(void);

static pid_t *children; /* of the first process, up to a 0 */

/* stop ends the others and waits for them: libfabric's shm provider removes what it has under /dev/shm when
 * a process is asked to end, not when it is killed. */
static void stop(void)
{
	signal(SIGCHLD, SIG_DFL);
	for (pid_t *p = children; *p; p++)
		kill(*p, SIGTERM);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void terminated(int signal)
{
	(void)signal;
	stop();
	_exit(1);
}

/* ended ends the first process when another has failed, by the signal that a provider may have a
 * handler for, too. */
static void ended(int signal)
{
	int status;

	(void)signal;
	while (waitpid(-1, &status, WNOHANG) > 0)
		if (status)
			raise(SIGTERM);
}

/* split makes others processes, and gives the rank. The first has a socket to each of them, the
 * others have one. */
static int split(int others, int *sockets)
{
	yields = others + 1 > sysconf(_SC_NPROCESSORS_ONLN);
	children = calloc(others + 1, sizeof *children);
	signal(SIGCHLD, ended);
	signal(SIGTERM, terminated);
	atexit(stop);
	for (int i = 0; i < others; i++) {
		int pair[2];
		pid_t child;

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || (child = fork()) < 0)
			exit(1);
		close(pair[child == 0 ? 0 : 1]);
		sockets[i] = pair[child == 0 ? 1 : 0];
		if (child) {
			children[i] = child;
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		children[0] = 0;
		for (int j = 0; j < i; j++) /* those of the first process, which others wait for the end of */
			close(sockets[j]);
		sockets[0] = sockets[i];
		return i + 1;
	}
	return 0;
}

/* join waits in the first process for the end of the others. */
static void join(void)
{
	int status;

	while (waitpid(-1, &status, 0) > 0)
		if (status)
			exit(1);
	children[0] = 0;
}

/* idle is what a process does that waits and has found nothing to do: where others have to run on
 * its CPU, it lets them. */
static void idle(void)
{
	if (yields)
		sched_yield();
}

/* swap tells the other process a number and waits for its own, making progress. */
static long swap(int socket, long n)
{
	if (write(socket, &n, sizeof n) != sizeof n)
		exit(1);
	for (;;) {
		ssize_t r = recv(socket, &n, sizeof n, MSG_DONTWAIT);

		if (r == sizeof n)
			return n;
		if (r == 0) {
			fprintf(stderr, "the other process has ended\n");
			exit(1);
		}
		progress();
	}
}

/* tell and hear move what both processes know the length of. */
static void tell(int socket, const void *p, size_t n)
{
	if (write(socket, p, n) != (ssize_t)n)
		exit(1);
}

static void hear(int socket, void *p, size_t n)
{
	if (recv(socket, p, n, MSG_WAITALL) != (ssize_t)n) {
		fprintf(stderr, "the other process has no address\n");
		exit(1);
	}
}
