/* Allreduce of floats in MPI, timed as the Go program beside it does: a barrier, then
 * calls one after the other. Prints a line of JSON for each size.
 *
 *	allreduce BYTES WARMUP ITERATIONS ... (any number of threes)
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(long bytes, long warmup, long iterations, int rank, int ranks)
{
	long i, count = bytes / (long)sizeof(float), wrong = 0, all_wrong = 0;
	float *in = malloc(bytes + 1), *out = malloc(bytes + 1);
	double *times = malloc(iterations * sizeof(double)), begin = 0, before, now, avg, most;

	if (!in || !out || !times)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (i = 0; i < count; i++) {
		in[i] = (float)((i + rank) % 7);
		out[i] = -1;
	}
	for (i = 0; i < iterations; i++)
		times[i] = -1; /* so that the kernel gives the memory now */
	before = MPI_Wtime();
	for (i = -warmup; i < iterations; i++) {
		if (i == 0) {
			MPI_Barrier(MPI_COMM_WORLD);
			begin = before = MPI_Wtime();
		}
		MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		now = MPI_Wtime();
		if (i >= 0)
			times[i] = now - before;
		before = now;
	}
	avg = (before - begin) / iterations;
	MPI_Reduce(&avg, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	for (i = 0; i < count; i++) {
		float want = 0;
		for (int r = 0; r < ranks; r++)
			want += (float)((i + r) % 7);
		wrong += out[i] != want;
	}
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		qsort(times, iterations, sizeof(double), compare);
		printf("{\"size\":%ld,\"avg_us\":%.3f,\"min_us\":%.3f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"wrong\":%ld}\n", bytes,
		       most * 1e6, times[0] * 1e6, times[(iterations - 1) / 2] * 1e6, times[(iterations - 1) * 99 / 100] * 1e6, all_wrong);
		fflush(stdout);
	}
	free(in);
	free(out);
	free(times);
}

int main(int argc, char **argv)
{
	int rank, ranks;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI has each rank in a process group of its own */
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 1; i + 2 < argc; i += 3)
		measure(atol(argv[i]), atol(argv[i + 1]), atol(argv[i + 2]), rank, ranks);
	MPI_Finalize();
	return 0;
}
