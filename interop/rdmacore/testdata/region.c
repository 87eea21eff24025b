// Memory regions: every combination of access flags gets what the kernel gives,
// and so does memory that isn't there.
#include "ends.h"

#define SIZE (1 << 16)

// expected is the kernel's answer to access flags: the core's checks come first,
// then the driver's, which ignores optional flags.
static int expected(int access, bool read, bool write)
{
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	int allowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	if (read)
		allowed |= IBV_ACCESS_REMOTE_READ;
	if (write)
		allowed |= IBV_ACCESS_REMOTE_WRITE;
	return access & ~allowed ? EOPNOTSUPP : 0;
}

static void combinations(struct device *d, struct ibv_pd *pd, void *memory, bool write)
{
	bool read = d->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
	int count[3] = {};
	for (int i = 0; i < 512; i++) {
		int access = (i & 255) | (i & 256 ? IBV_ACCESS_RELAXED_ORDERING : 0);
		struct ibv_mr *mr = NULL;
		int got = outcome(mr = ibv_reg_mr(pd, memory, SIZE, access));
		int want = expected(access, read, write);
		must(got == want, ": access %#x: %s, want %s", access, name(got), name(want));
		count[got == 0 ? 0 : got == EOPNOTSUPP ? 1 : 2]++;
		if (mr) {
			must(mr->addr == memory && mr->length == SIZE);
			must(!ibv_dereg_mr(mr));
		}
	}
	step("access: %d combinations, EOPNOTSUPP %d, EINVAL %d", count[0], count[1], count[2]);
}

static void keys(struct device *d, struct ibv_pd *pd, uint8_t *memory)
{
	struct ibv_mr *mr[64];
	int n = d->attr.orig_attr.max_mr < 64 ? d->attr.orig_attr.max_mr : 64;
	for (int i = 0; i < n; i++) {
		mr[i] = ibv_reg_mr(pd, memory + i * 17, 4000 + (size_t)i, IBV_ACCESS_LOCAL_WRITE);
		must(mr[i]);
		for (int j = 0; j < i; j++)
			must(((mr[i]->lkey ^ mr[j]->lkey) & 0xffffff) && mr[i]->rkey != mr[j]->rkey);
	}
	for (int i = 0; i < n; i++)
		must(!ibv_dereg_mr(mr[i]));
	step("keys: %d regions of the same memory, no key twice", n);
}

static void addresses(struct ibv_pd *pd, uint8_t *memory)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, memory + 100, 5000, 0x7000000000 + 100, IBV_ACCESS_LOCAL_WRITE);
	must(mr);
	must(!ibv_dereg_mr(mr));
	step("iova: of its own");
	step("iova: another offset in the page: %s",
	     name(outcome(ibv_reg_mr_iova(pd, memory + 100, 5000, 0x7000000000 + 101, IBV_ACCESS_LOCAL_WRITE))));
	step("no bytes: %s", name(outcome(ibv_reg_mr(pd, memory, 0, IBV_ACCESS_LOCAL_WRITE))));
	step("past the end of the address space: %s",
	     name(outcome(ibv_reg_mr(pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE))));

	uint8_t *hole = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(hole != MAP_FAILED && !munmap(hole + 4096, SIZE - 4096));
	step("a hole: %s", name(outcome(ibv_reg_mr(pd, hole, SIZE, IBV_ACCESS_LOCAL_WRITE))));
	must(!mprotect(hole, 4096, PROT_READ));
	step("to write what is read-only: %s", name(outcome(ibv_reg_mr(pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE))));
	mr = ibv_reg_mr(pd, hole, 4096, 0);
	must(mr);
	must(!ibv_dereg_mr(mr));
	step("to read what is read-only: 0");
	munmap(hole, 4096);
}

int main(int argc, char **argv)
{
	(void)argv;
	begin();
	struct device d = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(d.context);
	must(pd);
	uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED);
	combinations(&d, pd, memory, argc > 1); // any argument: the device can write, which libefa 44 cannot tell
	keys(&d, pd, memory);
	addresses(pd, memory);
	must(!ibv_dealloc_pd(pd));
	close_device(&d);
	step("close");
	return 0;
}
