/* Messages there and back between two ranks in MPI. Prints half the time of a round trip,
 * and the CPU time of both processes for a message, in microseconds.
 *
 *	pingpong BYTES WARMUP ITERATIONS
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

int main(int argc, char **argv)
{
	int rank;
	long bytes, warmup, iterations;
	double began = 0, took, used = 0, all;
	char *out, *in;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI has each rank in a process group of its own */
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 4) {
		fprintf(stderr, "usage: %s BYTES WARMUP ITERATIONS\n", argv[0]);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	bytes = atol(argv[1]), warmup = atol(argv[2]), iterations = atol(argv[3]);
	if (posix_memalign((void **)&out, 4096, bytes + 1) || posix_memalign((void **)&in, 4096, bytes + 1))
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, 1, bytes + 1);
	memset(in, 0, bytes + 1);
	MPI_Barrier(MPI_COMM_WORLD);
	for (long i = -warmup; i < iterations; i++) {
		if (i == 0) {
			used = cpu();
			began = MPI_Wtime();
		}
		if (rank == 0) {
			MPI_Send(out, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(in, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		}
	}
	took = (MPI_Wtime() - began) * 1e6;
	used = cpu() - used;
	if (memcmp(in, out, bytes))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"us\":%.4f,\"cpu_us\":%.4f}\n", took / iterations / 2, all / iterations / 2);
	MPI_Finalize();
	return 0;
}
