/* Messages from one rank to another in MPI that are matched each with one of many: with receives that all
 * are posted before the first message, or with receives for messages that all have come before. Prints the
 * time of one in microseconds.
 *
 *	each DEPTH ROUNDS CAME RANDOM
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define BYTES 8
#define LAST_TAG 0 /* of what comes after all others; theirs are higher */

static int depth, came, *order;
static char *in, out[BYTES];
static MPI_Request *reqs;

/* shuffle gives both ranks the same order. */
static void shuffle(int random)
{
	unsigned long x = 1;

	for (int i = 0; i < depth; i++)
		order[i] = i;
	for (int i = depth - 1; random && i > 0; i--) {
		int j, t = order[i];

		x = x * 6364136223846793005UL + 1442695040888963407UL;
		j = (int)((x >> 33) % (i + 1));
		order[i] = order[j];
		order[j] = t;
	}
}

static void give(void)
{
	if (!came)
		MPI_Barrier(MPI_COMM_WORLD); /* the receives are posted */
	for (int i = 0; i < depth; i++)
		MPI_Send(out, BYTES, MPI_CHAR, 0, 1 + (came ? i : order[i]), MPI_COMM_WORLD);
	if (came)
		MPI_Send(out, BYTES, MPI_CHAR, 0, LAST_TAG, MPI_COMM_WORLD);
}

static double take_waiting(void)
{
	double began;

	MPI_Recv(in, BYTES, MPI_CHAR, 1, LAST_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	began = MPI_Wtime();
	for (int i = 0; i < depth; i++)
		MPI_Recv(in + BYTES * order[i], BYTES, MPI_CHAR, 1, 1 + order[i], MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return (MPI_Wtime() - began) / depth;
}

static double take(void)
{
	double began;

	for (int i = 0; i < depth; i++)
		MPI_Irecv(in + BYTES * i, BYTES, MPI_CHAR, 1, 1 + i, MPI_COMM_WORLD, &reqs[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Wait(&reqs[order[0]], MPI_STATUS_IGNORE); /* what comes before is the sender's start */
	began = MPI_Wtime();
	MPI_Waitall(depth, reqs, MPI_STATUSES_IGNORE);
	return (MPI_Wtime() - began) / (depth > 1 ? depth - 1 : 1);
}

int main(int argc, char **argv)
{
	int rank;
	long rounds;
	double took = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI has each rank in a process group of its own */
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 5) {
		fprintf(stderr, "usage: %s DEPTH ROUNDS CAME RANDOM\n", argv[0]);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	depth = atoi(argv[1]), rounds = atol(argv[2]), came = atoi(argv[3]);
	order = calloc(depth, sizeof *order);
	reqs = calloc(depth, sizeof *reqs);
	in = calloc(depth, BYTES);
	shuffle(atoi(argv[4]));
	for (long i = -1; i < rounds; i++) { /* the first does not count */
		double t = 0;

		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 1)
			give();
		else
			t = came ? take_waiting() : take();
		if (i >= 0)
			took += t;
	}
	if (rank == 0)
		printf("{\"us\":%.4f}\n", took / rounds * 1e6);
	MPI_Finalize();
	return 0;
}
