// Address handles: numbers, several handles of one address, handles of addresses
// without a device.
#include "ends.h"

static uint16_t number(struct ibv_ah *ah)
{
	struct efadv_ah_attr attr;
	must(!efadv_query_ah(ah, &attr, sizeof(attr)));
	return attr.ahn;
}

int main(void)
{
	begin();
	struct device d = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(d.context);
	must(pd);

	struct ibv_ah *first = create_ah(pd, d.gid);
	must(first && number(first) != 0xffff);
	step("own address");
	struct ibv_ah *again = create_ah(pd, d.gid);
	must(again && number(again) == number(first));
	step("again: the same number");
	must(!ibv_destroy_ah(first));
	first = create_ah(pd, d.gid);
	must(first && number(first) == number(again));
	must(!ibv_destroy_ah(first) && !ibv_destroy_ah(again));
	step("counted: it lives as long as the last");

	struct ibv_ah *many[32];
	int n = d.attr.orig_attr.max_ah < 32 ? d.attr.orig_attr.max_ah : 32;
	for (int i = 0; i < n; i++) {
		union ibv_gid gid = d.gid;
		gid.raw[15] ^= (uint8_t)(i + 1);
		many[i] = create_ah(pd, gid);
		must(many[i]);
		for (int j = 0; j < i; j++)
			must(number(many[i]) != number(many[j]));
	}
	for (int i = 0; i < n; i++)
		must(!ibv_destroy_ah(many[i]));
	step("%d addresses: as many numbers", n);

	struct ibv_ah_attr attr = {.is_global = 1, .grh.dgid = d.gid, .port_num = 2};
	step("port 2: %s", name(outcome(ibv_create_ah(pd, &attr))));
	attr.port_num = 1;
	attr.grh.sgid_index = 1;
	step("source address 1: %s", name(outcome(ibv_create_ah(pd, &attr))));
	attr = (struct ibv_ah_attr){.is_global = 1, .grh = {.dgid = d.gid, .flow_label = 7, .hop_limit = 64, .traffic_class = 3},
				    .sl = 2, .port_num = 1};
	first = ibv_create_ah(pd, &attr);
	must(first);
	must(!ibv_destroy_ah(first));
	step("service level, traffic class and so on do not matter");

	must(!ibv_dealloc_pd(pd));
	close_device(&d);
	step("close");
	return 0;
}
