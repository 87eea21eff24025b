/* Words of a command. */
#include <stdlib.h>
#include <string.h>

#include "agent.h"

/* words_split cuts line in place. */
void words_split(struct words *c, char *line)
{
	char *save = NULL, *w;

	memset(c, 0, sizeof(*c));
	c->verb = strtok_r(line, " \r\n", &save);
	while (c->n < MAX_WORDS && (w = strtok_r(NULL, " \r\n", &save)) != NULL) {
		char *eq = strchr(w, '=');

		if (eq != NULL)
			*eq++ = '\0';
		c->w[c->n].key = w;
		c->w[c->n++].value = eq != NULL ? eq : "1";
	}
	if (c->verb == NULL)
		c->verb = "";
}

const char *word_text(const struct words *c, const char *key, const char *otherwise)
{
	for (int i = 0; i < c->n; i++)
		if (strcmp(c->w[i].key, key) == 0)
			return c->w[i].value;
	return otherwise;
}

int word_given(const struct words *c, const char *key)
{
	return word_text(c, key, NULL) != NULL;
}

uint64_t word_number(const struct words *c, const char *key, uint64_t otherwise)
{
	const char *v = word_text(c, key, NULL);

	return v != NULL ? strtoull(v, NULL, 0) : otherwise;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* word_bytes reads hexadecimal bytes, and returns how many, or -1. */
long word_bytes(const struct words *c, const char *key, unsigned char *to, size_t room)
{
	const char *v = word_text(c, key, "");
	size_t n = strlen(v) / 2;

	if (strlen(v) % 2 != 0 || n > room)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int hi = digit(v[2 * i]), lo = digit(v[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -1;
		to[i] = (unsigned char)(hi << 4 | lo);
	}
	return (long)n;
}

void print_hex(FILE *f, const void *p, size_t n)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < n; i++)
		fprintf(f, "%02x", b[i]);
}
