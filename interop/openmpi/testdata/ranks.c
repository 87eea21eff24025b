// ranks HOW: what the ranks of an MPI job do with each other. Every byte that arrives is
// checked, and rank 0 prints one line for each step that went well on all ranks.
//
// HOW is "pt2pt" or "rdma", the component that has one-sided operations, or "dies": the
// last rank kills itself while the others wait for it.

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

#define CHECK(ok) \
	do { \
		if (!(ok)) { \
			fprintf(stderr, "rank %d: line %d: not %s\n", rank, __LINE__, #ok); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

// done ends a step.
static void done(const char *step)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s\n", step), fflush(stdout);
}

static unsigned char byte(int from, size_t i) { return (unsigned char)(i * 7 + i / 251 + (size_t)from * 31); }

static void fill(unsigned char *b, size_t n, int from)
{
	for (size_t i = 0; i < n; i++)
		b[i] = byte(from, i);
}

static int filled(const unsigned char *b, size_t n, int from)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != byte(from, i))
			return 0;
	return 1;
}

static void hello(void)
{
	char name[MPI_MAX_PROCESSOR_NAME], *all = malloc((size_t)ranks * sizeof name);
	int length;
	MPI_Get_processor_name(name, &length);
	MPI_Gather(name, sizeof name, MPI_CHAR, all, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < ranks; i++)
		CHECK(strcmp(name, all + (size_t)i * sizeof name) == 0);
	free(all);
	done("hello");
}

// pingpong: rank 0 with each other one, in all sizes, to and from memory of its own.
static void pingpong(void)
{
	static const size_t sizes[] = {0, 1, 8, 4096, 8192, 9000, 65536, 65537, 300000, 1 << 20, 3000001};
	const size_t most = 3000001;
	unsigned char *out = malloc(most), *in = malloc(most + 1);
	for (int peer = 1; peer < ranks; peer++) {
		if (rank != 0 && rank != peer)
			continue;
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
			for (int turn = 0; turn < 3; turn++) {
				int n = (int)sizes[s], count, other = rank == 0 ? peer : 0;
				MPI_Status status;
				fill(out, sizes[s], rank + turn);
				memset(in, 0, most + 1);
				if (rank == 0)
					MPI_Send(out, n, MPI_BYTE, other, n, MPI_COMM_WORLD);
				MPI_Recv(in, (int)most, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
				if (rank != 0)
					MPI_Send(out, n, MPI_BYTE, other, n, MPI_COMM_WORLD);
				MPI_Get_count(&status, MPI_BYTE, &count);
				CHECK(count == n && status.MPI_TAG == n && status.MPI_SOURCE == other);
				CHECK(filled(in, sizes[s], other + turn) && in[n] == 0);
			}
	}
	free(out);
	free(in);
	done("pingpong");
}

// unexpected: every rank sends to every other one, in each way, before anyone has a
// receive, and looks at what came before it takes it. (Open MPI 4.1.4 acknowledges no
// synchronous send that was matched by MPI_Mprobe, over any provider of libfabric.)
static void unexpected(void)
{
	const int n = 200000;
	unsigned char *out = malloc(n), *in = malloc(n);
	MPI_Request *sends = malloc((size_t)ranks * 3 * sizeof *sends);
	int k = 0;
	fill(out, n, rank);
	for (int to = 0; to < ranks; to++) {
		MPI_Isend(out, 100, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[k++]);
		MPI_Isend(out, n, MPI_BYTE, to, 2, MPI_COMM_WORLD, &sends[k++]);
		MPI_Issend(out, 5000, MPI_BYTE, to, 3, MPI_COMM_WORLD, &sends[k++]);
	}
	for (int tag = 3; tag >= 1; tag--)
		for (int from = 0; from < ranks; from++) {
			int count, want[] = {0, 100, n, 5000};
			MPI_Message message;
			MPI_Status status;
			if (tag == 3)
				MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
			else
				MPI_Mprobe(from, tag, MPI_COMM_WORLD, &message, &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			CHECK(count == want[tag]);
			if (tag == 3)
				MPI_Recv(in, count, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
			else
				MPI_Mrecv(in, count, MPI_BYTE, &message, &status);
			CHECK(filled(in, (size_t)count, from));
		}
	MPI_Waitall(k, sends, MPI_STATUSES_IGNORE);
	free(sends);
	free(out);
	free(in);
	done("unexpected");
}

static void collectives(void)
{
	static const int counts[] = {1, 1000, 100000};
	const int most = 100000;
	long *in = malloc((size_t)most * sizeof *in), *out = malloc((size_t)most * sizeof *out);
	long *all = malloc((size_t)ranks * 1000 * sizeof *all), *mine = malloc((size_t)ranks * 1000 * sizeof *mine);
	for (int c = 0; c < 3; c++) {
		for (int i = 0; i < counts[c]; i++)
			in[i] = (long)i * (rank + 1);
		MPI_Allreduce(in, out, counts[c], MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < counts[c]; i++)
			CHECK(out[i] == (long)i * ranks * (ranks + 1) / 2);
	}
	done("allreduce");
	for (int i = 0; i < most; i++)
		out[i] = rank == ranks - 1 ? i : 0;
	MPI_Bcast(out, most, MPI_LONG, ranks - 1, MPI_COMM_WORLD);
	for (int i = 0; i < most; i++)
		CHECK(out[i] == i);
	done("bcast");
	for (int i = 0; i < ranks * 1000; i++)
		mine[i] = rank * 1000000 + i;
	MPI_Alltoall(mine, 1000, MPI_LONG, all, 1000, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < ranks * 1000; i++)
		CHECK(all[i] == i / 1000 * 1000000 + rank * 1000 + i % 1000);
	done("alltoall");
	free(in), free(out), free(all), free(mine);
}

// onesided: puts, gets and atomics between fences and under locks. Open MPI's component
// rdma uses shared memory in windows that it allocates itself, and crashes in
// MPI_Compare_and_swap (4.1.4), whatever carries it.
static void onesided(int rdma)
{
	enum { n = 50000, cells = n + 8 };
	long *window, *got = malloc(n * sizeof *got), *put = malloc(n * sizeof *put), one = 1, old, zero = 0;
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Win win;
	if (rdma) {
		window = malloc(cells * sizeof *window);
		MPI_Win_create(window, cells * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	} else {
		MPI_Win_allocate(cells * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	}
	memset(window, 0, cells * sizeof *window);
	for (int i = 0; i < n; i++)
		put[i] = (long)rank * n + i;
	MPI_Win_fence(0, win);
	MPI_Put(put, n, MPI_LONG, right, 0, n, MPI_LONG, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++)
		CHECK(window[i] == (long)left * n + i);
	done("put");
	MPI_Get(got, n, MPI_LONG, right, 0, n, MPI_LONG, win);
	MPI_Win_fence(0, win);
	CHECK(memcmp(got, put, n * sizeof *got) == 0);
	done("get");
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	for (int i = 0; i < 20; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
		MPI_Accumulate(&one, 1, MPI_LONG, 0, n, 1, MPI_LONG, MPI_SUM, win);
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, n + 1, MPI_SUM, win);
		MPI_Win_flush(0, win);
		CHECK(old >= i && old < 20L * ranks);
		if (!rdma)
			MPI_Compare_and_swap(&one, &zero, &old, MPI_LONG, 0, n + 2, win);
		MPI_Win_unlock(0, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
	MPI_Get(got, 3, MPI_LONG, 0, n, 3, MPI_LONG, win);
	MPI_Win_unlock(0, win);
	CHECK(got[0] == 20L * ranks && got[1] == 20L * ranks && got[2] == !rdma);
	done("atomics");
	MPI_Win_free(&win);
	if (rdma)
		free(window);
	free(got), free(put);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(argc == 2);
	hello();
	if (strcmp(argv[1], "dies") == 0) {
		MPI_Bcast(&ranks, 1, MPI_INT, 0, MPI_COMM_WORLD); // rank 0 has printed before
		if (rank == ranks - 1)
			raise(SIGKILL);
		done("not to be seen");
	}
	pingpong();
	unexpected();
	collectives();
	onesided(strcmp(argv[1], "rdma") == 0);
	MPI_Finalize();
	return 0;
}
