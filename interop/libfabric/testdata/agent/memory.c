/* Buffers of operations, and regions for peers. */
#include <stdlib.h>
#include <string.h>

#include "agent.h"

static struct region regions[MAX_REGIONS];
static uint64_t next_key = 1;

static unsigned char *aligned(size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, n > 0 ? n : 1) != 0)
		return NULL;
	memset(p, UNTOUCHED, n);
	return p;
}

static int register_memory(struct fid_mr **mr, void *p, size_t n, uint64_t access)
{
	int r = fi_mr_reg(agent.domain, p, n, access, 0, next_key++, 0, mr, NULL);

	if (r != 0)
		return r;
	if (agent.info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		if ((r = fi_mr_bind(*mr, &agent.ep->fid, 0)) == 0)
			r = fi_mr_enable(*mr);
	}
	return r;
}

/* buffer_make lays the pieces out with a guard before, between and behind them. */
int buffer_make(struct buffer *b, size_t size, size_t pieces, int registered)
{
	unsigned char *p;

	memset(b, 0, sizeof(*b));
	if (pieces < 1 || pieces > MAX_PIECES)
		return -FI_EINVAL;
	b->size = size;
	b->n = pieces;
	b->total = size + GUARD * (pieces + 1);
	if ((b->base = aligned(b->total)) == NULL)
		return -FI_ENOMEM;
	if (registered) {
		int r = register_memory(&b->mr, b->base, b->total,
					FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);

		if (r != 0)
			return r;
	}
	p = b->base;
	for (size_t i = 0; i < pieces; i++) {
		size_t len = i + 1 < pieces ? size / pieces : size - size / pieces * (pieces - 1);

		p += GUARD;
		b->iov[i].iov_base = p;
		b->iov[i].iov_len = len;
		b->desc[i] = b->mr != NULL ? fi_mr_desc(b->mr) : NULL;
		p += len;
	}
	return 0;
}

static void pattern(unsigned char *p, size_t n, size_t from, unsigned seed)
{
	unsigned v = (unsigned)((from + seed) % MODULUS);

	for (size_t i = 0; i < n; i++) {
		p[i] = (unsigned char)v;
		if (++v == MODULUS)
			v = 0;
	}
}

/* Whether p has the pattern; else *at is where it ends. */
static int patterned(const unsigned char *p, size_t n, size_t from, unsigned seed, size_t *at)
{
	unsigned v = (unsigned)((from + seed) % MODULUS);

	for (size_t i = 0; i < n; i++) {
		if (p[i] != v) {
			*at = from + i;
			return 0;
		}
		if (++v == MODULUS)
			v = 0;
	}
	return 1;
}

void buffer_fill(struct buffer *b, unsigned seed)
{
	size_t done = 0;

	for (size_t i = 0; i < b->n; i++) {
		pattern(b->iov[i].iov_base, b->iov[i].iov_len, done, seed);
		done += b->iov[i].iov_len;
	}
}

int buffer_seed(const struct buffer *b, size_t len, size_t *at)
{
	size_t done = 0;
	int seed = -1;

	for (size_t i = 0; i < b->n && done < len; i++) {
		const unsigned char *p = b->iov[i].iov_base;
		size_t n = b->iov[i].iov_len < len - done ? b->iov[i].iov_len : len - done;

		if (n > 0 && seed < 0)
			seed = p[0];
		if (n > 0 && !patterned(p, n, done, (unsigned)seed, at))
			return -2;
		done += n;
	}
	if (done < len) {
		*at = done;
		return -2;
	}
	return seed;
}

static int untouched(const unsigned char *p, size_t n, size_t *at, size_t name)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != UNTOUCHED) {
			*at = name + i;
			return 0;
		}
	return 1;
}

int buffer_intact(const struct buffer *b, size_t len, size_t *at)
{
	const unsigned char *p = b->base;
	size_t done = 0;

	for (size_t i = 0; i < b->n; i++) {
		size_t n = b->iov[i].iov_len, used = done < len ? len - done : 0;

		if (used > n)
			used = n;
		if (!untouched(p, GUARD, at, done) || !untouched(p + GUARD + used, n - used, at, done + used))
			return 0;
		p += GUARD + n;
		done += n;
	}
	return untouched(p, GUARD, at, done);
}

void buffer_free(struct buffer *b)
{
	if (b->mr != NULL)
		fi_close(&b->mr->fid);
	free(b->base);
	memset(b, 0, sizeof(*b));
}

struct region *region_at(uint64_t number)
{
	return number < MAX_REGIONS && regions[number].base != NULL ? &regions[number] : NULL;
}

static uint64_t access_bits(const char *text)
{
	static const struct {
		const char *name;
		uint64_t bit;
	} names[] = {
		{"send", FI_SEND}, {"recv", FI_RECV}, {"write", FI_WRITE}, {"read", FI_READ},
		{"remoteread", FI_REMOTE_READ}, {"remotewrite", FI_REMOTE_WRITE},
	};
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i].name);
		const char *p = text;

		for (; p != NULL; p = strchr(p, ','), p = p != NULL ? p + 1 : NULL)
			if (strncmp(p, names[i].name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
				bits |= names[i].bit;
	}
	return bits;
}

int do_region(const struct words *c)
{
	size_t size = word_number(c, "size", 0);
	struct region *g = NULL;
	int i, r;

	for (i = 0; i < MAX_REGIONS && g == NULL; i++)
		if (regions[i].base == NULL)
			g = &regions[i];
	if (g == NULL || size == 0)
		return reply_wrong("no region of %zu bytes", size);
	if ((g->base = aligned(size)) == NULL)
		return reply_fail(FI_ENOMEM, "region");
	g->size = size;
	r = register_memory(&g->mr, g->base, size, access_bits(word_text(c, "access", "")));
	if (r != 0) {
		free(g->base);
		g->base = NULL;
		return reply_fail(r, "fi_mr_reg");
	}
	return reply_ok("region=%d addr=%llu key=%llu", (int)(g - regions),
			agent.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (unsigned long long)(uintptr_t)g->base : 0ULL,
			(unsigned long long)fi_mr_key(g->mr));
}

static int region_close(struct region *g)
{
	int r = fi_close(&g->mr->fid);

	free(g->base);
	memset(g, 0, sizeof(*g));
	return r;
}

void regions_close(void)
{
	for (int i = 0; i < MAX_REGIONS; i++)
		if (regions[i].base != NULL)
			region_close(&regions[i]);
}

int do_unregister(const struct words *c)
{
	struct region *g = region_at(word_number(c, "region", MAX_REGIONS));
	int r;

	if (g == NULL)
		return reply_wrong("no such region");
	r = region_close(g);
	return r != 0 ? reply_fail(r, "fi_close") : reply_ok("%s", "");
}

/* part is the part of a region that a command is about. */
static unsigned char *part(const struct words *c, size_t *len)
{
	struct region *g = region_at(word_number(c, "region", MAX_REGIONS));
	uint64_t off = word_number(c, "off", 0);

	if (g == NULL || off > g->size)
		return NULL;
	if (len != NULL) {
		*len = word_number(c, "len", g->size - off);
		if (*len > g->size - off)
			return NULL;
	}
	return g->base + off;
}

int do_fill(const struct words *c)
{
	size_t len;
	unsigned char *p = part(c, &len);

	if (p == NULL)
		return reply_wrong("no such part of a region");
	if (word_given(c, "seed"))
		pattern(p, len, 0, (unsigned)word_number(c, "seed", 0));
	else
		memset(p, UNTOUCHED, len);
	return reply_ok("%s", "");
}

int do_check(const struct words *c)
{
	size_t len, at = 0;
	unsigned char *p = part(c, &len);

	if (p == NULL)
		return reply_wrong("no such part of a region");
	if (len > 0 && p[0] == UNTOUCHED && untouched(p, len, &at, 0))
		return reply_ok("untouched=1");
	if (len > 0 && !patterned(p, len, 0, p[0], &at))
		return reply_ok("bad=%zu", at);
	return reply_ok("seed=%d", len > 0 ? p[0] : -1);
}

int do_set(const struct words *c)
{
	size_t len;
	unsigned char *p = part(c, &len);

	if (p == NULL || word_bytes(c, "hex", p, len) < 0)
		return reply_wrong("no such part of a region, or no bytes");
	return reply_ok("%s", "");
}

int do_get(const struct words *c)
{
	size_t len;
	unsigned char *p = part(c, &len);

	if (p == NULL || !word_given(c, "len"))
		return reply_wrong("no such part of a region");
	printf("ok hex=");
	print_hex(stdout, p, len);
	printf("\n");
	return 0;
}
