/* The stream of package flow in MPI, as osu_mbw_mr does it: a window of MPI_Isend and
 * MPI_Irecv, then MPI_Waitall. MPI has tags always; TAGGED means nothing here. */
/* stream.h goes before this file. */
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	int rank, n, sends, recvs;
	int64_t began = 0, mine = 0, theirs = 0;
	long bad, all = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* Open MPI has each rank in a process group of its own */
	MPI_Init(&argc, &argv);
	parse(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	sends = rank == 0 || both;
	recvs = rank == 1 || both;

	char **out = new_buffers(1), **in = new_buffers(0);
	MPI_Request *reqs = calloc(2 * window, sizeof *reqs);
	MPI_Status *done = calloc(2 * window, sizeof *done);

	MPI_Barrier(MPI_COMM_WORLD);
	for (long at = 0; at < warm + count;) {
		int used = 0;

		for (long i = 0; recvs && i < window; i++)
			MPI_Irecv(in[i % buffers], (int)size, MPI_CHAR, 1 - rank, DATA_TAG, MPI_COMM_WORLD, &reqs[used++]);
		for (long i = 0; sends && i < window; i++)
			MPI_Isend(out[i % buffers], (int)size, MPI_CHAR, 1 - rank, DATA_TAG, MPI_COMM_WORLD, &reqs[used++]);
		MPI_Waitall(used, reqs, done);
		for (long i = 0; recvs && i < window; i++) {
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
		if (both)
			MPI_Sendrecv(&mine, 8, MPI_CHAR, 1 - rank, ACK_TAG, &theirs, 8, MPI_CHAR, 1 - rank, ACK_TAG, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
		else if (recvs)
			MPI_Send(&mine, 8, MPI_CHAR, 1 - rank, ACK_TAG, MPI_COMM_WORLD);
		else
			MPI_Recv(&theirs, 8, MPI_CHAR, 1 - rank, ACK_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	bad = recvs ? wrong(in) : 0;
	MPI_Reduce(&bad, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		print_result(theirs, mine, all);
	MPI_Finalize();
	return 0;
}
