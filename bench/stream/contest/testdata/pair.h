/* What the C programs share that fork: a second process and a pair of sockets, through which the
 * two tell each other what they must know. */
/* stream.h goes before this file. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

/* progress is the program's. */
static void progress(void);

/* ended ends the first process when the second has failed. */
static void ended(int signal)
{
	int status;

	(void)signal;
	if (waitpid(-1, &status, WNOHANG) > 0 && status)
		_exit(1);
}

/* split makes the processes, and gives the rank. */
static int split(int *to)
{
	int pair[2], rank;

	signal(SIGCHLD, ended);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || (child = fork()) < 0)
		exit(1);
	rank = child == 0;
	if (rank == 1)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(pair[1 - rank]);
	*to = pair[rank];
	return rank;
}

/* join waits in the first process for the second, whose failure has gone to ended. */
static void join(void)
{
	int status;

	waitpid(child, &status, 0);
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
