// Receiver not ready: every number of retries, from none to for ever.
#include "ends.h"

static void retries(struct device *d, uint8_t n)
{
	struct end *a = open_end(d, (struct options){.rnr_retry = n});
	struct end *b = open_end(d, (struct options){});
	struct target t = aim(a, b);
	post_bytes(a, &t, 1, 0, 100);
	if (n < 7) {
		struct ibv_wc wc = next(a->cq);
		must(wc.wr_id == 1 && wc.vendor_err == 10, ": %u of the device", wc.vendor_err);
		step("%d retries: %s", n, ibv_wc_status_str(wc.status));
	} else {
		quiet(a->cq, 0.1);
		post_recv(b, 2, 0, 200);
		good(a->cq);
		good(b->cq);
		step("for ever: it waits for the receive");
	}
	post_recv(b, 3, 0, 200);
	post_bytes(a, &t, 4, 0, 100);
	good(a->cq);
	good(b->cq);
	step("%d retries: then it works", n);
	unaim(&t);
	close_end(a);
	close_end(b);
}

// behind checks that a request that waits for its receiver holds up none to others.
static void behind(struct device *d)
{
	struct end *a = open_end(d, (struct options){.rnr_retry = 7});
	struct end *b = open_end(d, (struct options){});
	struct end *c = open_end(d, (struct options){});
	struct target to_b = aim(a, b), to_c = aim(a, c);
	for (int i = 0; i < 20; i++)
		post_bytes(a, &to_b, 1, 0, 100);
	for (int i = 0; i < 20; i++) {
		post_recv(c, 2, 0, 200);
		post_bytes(a, &to_c, 3, 0, 100);
	}
	for (int i = 0; i < 20; i++) {
		must(good(a->cq).wr_id == 3);
		good(c->cq);
	}
	step("20 that wait: 20 to another pass them");
	for (int i = 0; i < 20; i++)
		post_recv(b, 4, 0, 200);
	for (int i = 0; i < 20; i++) {
		must(good(a->cq).wr_id == 1);
		good(b->cq);
	}
	step("20 that wait: all arrive in the end");
	unaim(&to_b);
	unaim(&to_c);
	close_end(a);
	close_end(b);
	close_end(c);
}

// few checks that as many messages arrive as there are receives.
static void few(struct device *d)
{
	struct end *a = open_end(d, (struct options){.rnr_retry = 1});
	struct end *b = open_end(d, (struct options){});
	struct target t = aim(a, b);
	for (int i = 0; i < 5; i++)
		post_recv(b, (uint64_t)i, 0, 200);
	for (int i = 0; i < 12; i++)
		post_bytes(a, &t, (uint64_t)i, 0, 100);
	int arrived = 0, refused = 0;
	for (int i = 0; i < 12; i++) {
		struct ibv_wc wc = next(a->cq);
		must(wc.vendor_err == 0 || wc.vendor_err == 10, ": %u of the device", wc.vendor_err);
		wc.vendor_err ? refused++ : arrived++;
	}
	for (int i = 0; i < arrived; i++)
		good(b->cq);
	quiet(b->cq, 0.01);
	step("12 messages, 5 receives: %d arrived, %d refused", arrived, refused);
	unaim(&t);
	close_end(a);
	close_end(b);
}

int main(void)
{
	begin();
	struct device d = open_device();
	for (uint8_t n = 0; n <= 7; n++)
		retries(&d, n);
	behind(&d);
	few(&d);
	close_device(&d);
	step("close");
	return 0;
}
