//go:build linux

package netconn_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/efactor/efactor/api/efanet"
)

// TestGRPC: grpc-go's own interoperability client and server on each device.
func TestGRPC(t *testing.T) {
	for _, dev := range devices {
		t.Run(dev.name, func(t *testing.T) {
			s := dev.open(t)
			l := listen(t, s)
			server := grpc.NewServer()
			testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
			var serving sync.WaitGroup
			serving.Go(func() { assert.NoError(t, server.Serve(l)) })
			conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
				grpc.WithContextDialer((&efanet.Dialer{Setup: s.dial}).Dial),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			client := testgrpc.NewTestServiceClient(conn)
			interop.DoEmptyUnaryCall(ctx, client)
			interop.DoLargeUnaryCall(ctx, client)
			interop.DoClientStreaming(ctx, client)
			interop.DoServerStreaming(ctx, client)
			interop.DoPingPong(ctx, client)
			interop.DoEmptyStream(ctx, client)
			interop.DoTimeoutOnSleepingServer(ctx, client)
			interop.DoCancelAfterBegin(ctx, client)
			interop.DoCancelAfterFirstResponse(ctx, client)
			interop.DoCustomMetadata(ctx, client)
			interop.DoStatusCodeAndMessage(ctx, client)
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))

			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					body := bytes.Repeat([]byte{byte(i)}, 1<<20)
					for range 10 {
						out, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{
							ResponseSize: 1 << 20, Payload: &testgrpc.Payload{Body: body},
						})
						if assert.NoError(t, err) {
							assert.Len(t, out.Payload.Body, 1<<20)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, conn.Close())
			server.Stop()
			serving.Wait()
		})
	}
}
