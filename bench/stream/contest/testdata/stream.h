/* What the C programs share: the plan of package flow, as arguments, and the result. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DATA_TAG 1
#define ACK_TAG 2

static long size, warm, count, window, batch, buffers, tagged, both;

static void parse(int argc, char **argv)
{
	long *to[] = {&size, &warm, &count, &window, &batch, &buffers, &tagged, &both};

	if (argc != 1 + (int)(sizeof to / sizeof *to)) {
		fprintf(stderr, "usage: %s SIZE WARM COUNT WINDOW BATCH BUFFERS TAGGED BOTH\n", argv[0]);
		exit(2);
	}
	for (int i = 1; i < argc; i++)
		*to[i - 1] = atol(argv[i]);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* new_buffers gives page-aligned buffers, with the pattern or zeroed. */
static char **new_buffers(int pattern)
{
	char **list = calloc(buffers, sizeof *list);

	for (long i = 0; list && i < buffers; i++) {
		if (posix_memalign((void **)&list[i], 4096, size + 1))
			exit(1);
		for (long j = 0; j < size; j++)
			list[i][j] = pattern ? (char)(7 * j + 1) : 0;
	}
	return list;
}

/* wrong counts the buffers that do not hold the pattern. */
static long wrong(char **list)
{
	long n = 0;

	for (long i = 0; i < buffers; i++)
		for (long j = 0; j < size; j++)
			if (list[i][j] != (char)(7 * j + 1)) {
				n++;
				break;
			}
	return n;
}

/* print_result writes the JSON of flow.Result. A time of 0 is that of nothing received. */
static void print_result(int64_t theirs, int64_t mine, long bad)
{
	if (both)
		printf("{\"count\":%ld,\"ns\":[%lld,%lld],\"wrong\":%ld}\n", count, (long long)theirs, (long long)mine, bad);
	else
		printf("{\"count\":%ld,\"ns\":[%lld],\"wrong\":%ld}\n", count, (long long)theirs, bad);
	fflush(stdout);
}
