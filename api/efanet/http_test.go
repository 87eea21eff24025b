package efanet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efanet"
)

// TestHTTP: net/http's test server and its client, on connections that they keep, with bodies
// of any size in both directions.
func TestHTTP(t *testing.T) {
	l, err := efanet.Listen(soon(t), "127.0.0.1:0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // HTTP/1.1 has no answer before the end of the request
		assert.NoError(t, err)
		_, err = w.Write(body)
		assert.NoError(t, err)
	}))
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	defer s.Close()
	client := http.Client{Transport: &http.Transport{DialContext: new(efanet.Dialer).DialContext}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for _, n := range []int{0, 1, 5000, 60_000, 300_000, 2 << 20} {
				body := random(n + i)
				answer, err := client.Post("http://"+l.Addr().String(), "", bytes.NewReader(body))
				if !assert.NoError(t, err) {
					return
				}
				got, err := io.ReadAll(answer.Body)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(body, got))
				assert.NoError(t, answer.Body.Close())
			}
		})
	}
	wg.Wait()
}

// TestHTTPCancel: a request whose context ends, while the server writes, ends the server's write.
func TestHTTPCancel(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	ended := make(chan error)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 100_000))
		}
		ended <- err
	})}
	var serving sync.WaitGroup
	serving.Go(func() { assert.ErrorIs(t, s.Serve(l), http.ErrServerClosed) })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return efanet.Dial(ctx, l.Addr().String())
	}}
	ctx, cancel := context.WithCancel(soon(t))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", nil)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(answer.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.Error(t, <-ended)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, s.Shutdown(soon(t)))
	serving.Wait()
}

// Adder is a service of net/rpc.
type Adder struct{}

// Add adds.
func (Adder) Add(in [2]int, out *int) error {
	if *out = in[0] + in[1]; *out < 0 {
		return errors.New("negative")
	}
	return nil
}

// TestRPC: net/rpc, with calls from several goroutines.
func TestRPC(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	s := rpc.NewServer()
	require.NoError(t, s.Register(Adder{}))
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(b) })
	c := rpc.NewClient(a)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				var sum int
				assert.NoError(t, c.Call("Adder.Add", [2]int{i, j}, &sum))
				assert.Equal(t, i+j, sum)
			}
		})
	}
	wg.Wait()
	require.EqualError(t, c.Call("Adder.Add", [2]int{-1, 0}, new(int)), "negative")
	require.NoError(t, c.Close())
	serving.Wait()
}
