package otlp_test

import (
	gocontext "context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/efactor/efactor/internal/freeport"
)

// collect starts the receiver of a collector on loopback; received data is in the
// sink.
func collect(t *testing.T) (url string, sink *consumertest.TracesSink) {
	t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Get(t)))

	f := otlpreceiver.NewFactory()
	cfg := f.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Transport, server.NetAddr.Endpoint = "tcp", addr
	cfg.Protocols.HTTP = configoptional.Some(otlpreceiver.HTTPConfig{
		ServerConfig: server, TracesURLPath: "/v1/traces", MetricsURLPath: "/v1/metrics", LogsURLPath: "/v1/logs",
	})
	sink = new(consumertest.TracesSink)
	r, err := f.CreateTraces(t.Context(), receivertest.NewNopSettings(f.Type()), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, r.Shutdown(gocontext.Background())) })
	return "http://" + addr, sink
}
