/* The operations of a flood follow from its seed: the other side makes the same. */
#include <string.h>

#include "agent.h"

uint64_t splitmix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t seed, uint64_t k, uint64_t j)
{
	return splitmix(seed * 0x9e3779b97f4a7c15u + k * 8 + j);
}

/* log_uniform is 0 to max, each power of two as likely. */
static size_t log_uniform(uint64_t which, uint64_t within, size_t max)
{
	uint64_t bits = 0, b, low;

	while (bits < 63 && max >> bits != 0)
		bits++;
	b = which % (bits + 1);
	if (b == 0)
		return 0;
	low = (uint64_t)1 << (b - 1);
	low += within % low;
	return low < max ? (size_t)low : max;
}

void plan_make(struct plan *p, uint64_t seed, uint64_t k, size_t max, size_t inject)
{
	uint64_t what = draw(seed, k, 0) % 100, f = draw(seed, k, 3);

	memset(p, 0, sizeof(*p));
	p->what = what < 45 ? PLAN_MESSAGE : what < 80 ? PLAN_TAGGED : what < 92 ? PLAN_WRITE : PLAN_ADD;
	p->size = log_uniform(draw(seed, k, 1), draw(seed, k, 2), max);
	p->has_data = (f & 7) == 0;
	p->delivered = (f >> 3 & 3) == 0;
	p->registered = f >> 5 & 1;
	p->pieces = (f >> 6 & 7) == 0 && p->size >= 3 ? 3 : 1;
	p->inject = (f >> 9 & 3) == 0 && p->size <= inject && !p->delivered && p->pieces == 1;
	p->seed = (unsigned)(draw(seed, k, 4) % MODULUS);
	p->data = draw(seed, k, 5) & 0xffffffff;
	if (p->what == PLAN_WRITE && p->size == 0)
		p->size = 1;
}

/* do_plan prints the sum of a plan, to compare it with another maker's. */
int do_plan(const struct words *c)
{
	uint64_t n = word_number(c, "n", 0), sum = 0;

	for (uint64_t k = 0; k < n; k++) {
		struct plan p;

		plan_make(&p, word_number(c, "seed", 0), k, word_number(c, "max", 0), word_number(c, "inject", 0));
		sum = splitmix(sum ^ p.size);
		sum = splitmix(sum ^ p.data << 8 ^ p.seed);
		sum = splitmix(sum ^ ((uint64_t)p.what << 8 | p.pieces << 4 | (unsigned)p.has_data << 3 |
				      (unsigned)p.delivered << 2 | (unsigned)p.registered << 1 | (unsigned)p.inject));
	}
	return reply_ok("sum=%llu", (unsigned long long)sum);
}
