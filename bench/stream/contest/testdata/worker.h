/* What the programs share that use UCX: a worker, and endpoints to others. */
/* stream.h and fork.h go before this file. */
#include <ucp/api/ucp.h>

static ucp_context_h context;
static ucp_worker_h worker;

static void must(ucs_status_t status, const char *what)
{
	if (status != UCS_OK) {
		fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
		exit(1);
	}
}

static void progress(void)
{
	if (!ucp_worker_progress(worker))
		idle();
}

static void open_worker(void)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t worker_params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_config_t *config;

	must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	must(ucp_init(&params, config, &context), "ucp_init");
	ucp_config_release(config);
	must(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

/* meet exchanges addresses with another process. */
static ucp_ep_h meet(int socket)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	size_t len;
	void *other;
	ucp_ep_h ep;

	must(ucp_worker_get_address(worker, &address, &len), "ucp_worker_get_address");
	tell(socket, &len, sizeof len);
	tell(socket, address, len);
	ucp_worker_release_address(worker, address);
	hear(socket, &len, sizeof len);
	if (!(other = malloc(len)))
		exit(1);
	hear(socket, other, len);
	params.address = other;
	must(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
	free(other);
	return ep;
}

static void close_worker(void)
{
	ucp_worker_destroy(worker); /* removes its shared memory */
	ucp_cleanup(context);
}
