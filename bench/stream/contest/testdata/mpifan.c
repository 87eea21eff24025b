/* The streams of all ranks but the first to that one, in MPI: as in mpi.c, with a window of each
 * sender at a time. COUNT is of each. */
/* stream.h goes before this file. */
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	int rank, ranks, n;
	int64_t began = 0, mine = 0;
	long bad = 0, all = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI has each rank in a process group of its own */
	MPI_Init(&argc, &argv);
	parse(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);

	char ***in = calloc(ranks, sizeof *in), **out = new_buffers(1);
	MPI_Request *reqs = calloc(window * ranks, sizeof *reqs);
	MPI_Status *done = calloc(window * ranks, sizeof *done);

	for (int r = 1; rank == 0 && r < ranks; r++)
		in[r] = new_buffers(0);
	MPI_Barrier(MPI_COMM_WORLD);
	for (long at = 0; at < warm + count;) {
		int used = 0;

		if (rank == 0)
			for (int r = 1; r < ranks; r++)
				for (long i = 0; i < window; i++)
					MPI_Irecv(in[r][i % buffers], (int)size, MPI_CHAR, r, DATA_TAG, MPI_COMM_WORLD, &reqs[used++]);
		else
			for (long i = 0; i < window; i++)
				MPI_Isend(out[i % buffers], (int)size, MPI_CHAR, 0, DATA_TAG, MPI_COMM_WORLD, &reqs[used++]);
		MPI_Waitall(used, reqs, done);
		for (int i = 0; rank == 0 && i < used; i++) {
			MPI_Get_count(&done[i], MPI_CHAR, &n);
			if (n != size) {
				fprintf(stderr, "a message has %d bytes, not %ld\n", n, size);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
		at += window;
		if (at == warm)
			began = now();
		else if (at == warm + count)
			mine = now() - began;
		if (at % batch)
			continue;
		if (rank == 0)
			for (int r = 1; r < ranks; r++)
				MPI_Send(&mine, 8, MPI_CHAR, r, ACK_TAG, MPI_COMM_WORLD);
		else
			MPI_Recv(&mine, 8, MPI_CHAR, 0, ACK_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	for (int r = 1; rank == 0 && r < ranks; r++)
		bad += wrong(in[r]);
	MPI_Reduce(&bad, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		print_result(mine, 0, all);
	MPI_Finalize();
	return 0;
}
