// Steps that are printed and waits that end: what the programs of this directory
// share.
#pragma once

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 60.0 // seconds that anything may take, on a busy machine too

// step prints that a step went well.
__attribute__((format(printf, 1, 2))) static inline void step(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("ok ");
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	va_end(args);
}

// fail prints what went wrong, and ends.
__attribute__((format(printf, 3, 4), noreturn)) static inline void fail(const char *file, int line,
									const char *format, ...)
{
	int error = errno;
	va_list args;
	va_start(args, format);
	printf("not ok %s:%d: ", file, line);
	vprintf(format, args);
	printf(" (errno %d: %s)\n", error, strerror(error));
	fflush(stdout);
	va_end(args);
	exit(1);
}

// must ends the program unless a condition holds; the rest says what was found.
#define must(condition, ...)                                              \
	do {                                                              \
		if (!(condition))                                         \
			fail(__FILE__, __LINE__, #condition __VA_ARGS__); \
	} while (0)

// name is that of an errno.
static inline const char *name(int error)
{
	return error ? strerrorname_np(error) : "0";
}

// outcome is the errno of a call that returned a pointer.
#define outcome(call) (errno = 0, (call) ? 0 : errno)

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// nap gives the processor away for a moment.
static inline void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

// until repeats a statement until a condition holds, which it must in time.
#define until(condition, statement)                                                     \
	for (double _end = now() + PATIENCE; !(condition); nap()) {                     \
		statement;                                                              \
		if (now() > _end)                                                       \
			fail(__FILE__, __LINE__, "no %s after %g s", #condition, PATIENCE); \
	}

// begin bounds the life of the whole program.
static inline void begin(void)
{
	alarm(3 * (unsigned)PATIENCE);
}

// fill writes a pattern that seed chooses; same checks it.
static inline void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static inline bool same(const uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8)))
			return false;
	return true;
}
