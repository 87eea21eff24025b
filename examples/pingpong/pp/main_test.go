package pp

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/examples/pingpong/ctrl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is a context for a test that must not hang.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// match plays two sides against each other in this process, and returns their
// results and errors, the server's first.
func match(t *testing.T, ctx context.Context, server, client Config) (results [2][]Result, errs [2]error) {
	return impatient(t, ctx, ctrl.Patience, server, client)
}

// impatient is match with partners that wait only so long for each other.
func impatient(t *testing.T, ctx context.Context, patience time.Duration, server, client Config) (results [2][]Result, errs [2]error) {
	if server.Device == "" {
		server.Device = "shm:" + filepath.Join(t.TempDir(), "fabric")
	}
	if client.Device == "" {
		client.Device = server.Device
	}
	a, b := net.Pipe()
	done := make(chan int)
	play := func(i int, c net.Conn, cfg Config) {
		defer func() { done <- i }()
		defer c.Close()
		s, err := Open(ctx, cfg)
		if err != nil {
			errs[i] = err
			return
		}
		conn := ctrl.NewConn(c, i == 0)
		conn.Patience = patience
		errs[i] = s.Run(ctx, conn, func(r Result) error {
			results[i] = append(results[i], r)
			return nil
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	go play(0, a, server)
	go play(1, b, client)
	<-done
	<-done
	return results, errs
}

// sizes reads a list of sizes.
func sizes(t *testing.T, s string) []int {
	list, err := Sizes(s)
	require.NoError(t, err)
	return list
}
