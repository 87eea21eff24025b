package rendezvous

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
)

// TestSecrets: a process with another secret, or none, gets that reason at once, and
// rank 0 reports at its deadline which ones it has refused.
func TestSecrets(t *testing.T) {
	for _, c := range []struct{ name, zero, one, text, why string }{
		{"another", secretA, secretB, "another job secret", "tls"},
		{"rank 0 has none", "", secretA, "this rank has one", "TLS"},
		{"rank 1 has none", secretA, "", "this rank has none", "TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newParty(t, 2, c.zero)
			p.ranks[1].cfg.secure(t, c.one)
			ctx, cancel := context.WithCancel(p.ctx)
			p.ranks[0].ctx = ctx
			var hub sync.WaitGroup
			hub.Go(func() { p.ranks[0].run(fence) })
			p.ranks[1].run(fence)
			p.ranks[1].says(t, 1, board.Mistake, p.faultOf(1), c.text)
			require.NoError(t, p.ctx.Err(), "it was to be at once")
			cancel()
			p.heard()
			hub.Wait()
			p.ranks[0].says(t, 0, board.GivenUp, 0, "gave up")
		})
	}
}

// faultOf is the rank that rank r's error blames: rank 0 or, in rank 0's own error,
// Nobody.
func (p *party) faultOf(r int) int {
	var f *board.Failure
	require.ErrorAs(p.t, p.ranks[r].err, &f)
	require.LessOrEqual(p.t, f.Rank, 0)
	return f.Rank
}

// TestRefusedAreCounted: rank 0's report of refused connections at its deadline, which begins
// when it has refused one.
func TestRefusedAreCounted(t *testing.T) {
	t.Parallel()
	p := newParty(t, 2, secretA)
	p.ranks[1].cfg.secure(t, secretB)
	p.ranks[0].run(func(r *rank) error {
		p.ranks[1].run(fence)
		require.Eventually(t, func() bool {
			h := r.b.server.hub
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.refused == 1
		}, time.Minute, time.Millisecond)
		ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
		defer cancel()
		return r.b.Fence(ctx)
	})
	p.ranks[0].says(t, 0, board.Deadline, board.Nobody, "1 of 2 ranks arrived in time, missing: 1; connections refused: 1, the last one: it has another job secret")
}

// TestStaysHere: without TLS and leave nothing goes to other hosts.
func TestStaysHere(t *testing.T) {
	const other = "192.0.2.1:4711" // RFC 5737: an address for documentation
	for r := range 2 {
		cfg := Config{Rank: r, Size: 2, Addr: other}
		_, err := Join(t.Context(), cfg)
		require.ErrorIs(t, err, ErrNotLocal, "rank %d", r)
	}
	// With leave it is tried, which takes as long as there is time.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Join(ctx, Config{Rank: 1, Size: 2, Addr: other, Insecure: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestWhereToListen: only as far as it is allowed.
func TestWhereToListen(t *testing.T) {
	some := new(tls.Config)
	for _, c := range []struct {
		addr     string
		tls      *tls.Config
		insecure bool
		want     string
	}{
		{"127.0.0.1:1", nil, false, "127.0.0.1:1"},
		{"127.0.0.1:1", some, false, "127.0.0.1:1"},
		{"localhost:1", nil, false, "localhost:1"},
		{"[::1]:1", nil, true, "[::1]:1"},
		{"192.0.2.1:1", nil, false, ""},
		{"192.0.2.1:1", nil, true, ":1"},
		{"node1:1", some, false, ":1"}, // not looked up
		{"node1", some, false, ""},
	} {
		got, err := listenAddr(t.Context(), &Config{Addr: c.addr, Server: c.tls, Insecure: c.insecure})
		assert.Equal(t, c.want, got, "%+v", c)
		assert.Equal(t, c.want == "", err != nil, "%+v: %v", c, err)
	}
}

// TestStrangers: connections that are not of the job change nothing for it.
func TestStrangers(t *testing.T) {
	noise := make([]byte, 100_000)
	_, _ = rand.Read(noise) // never fails
	for _, secret := range []string{"", secretA} {
		t.Run(fmt.Sprint(secret != ""), func(t *testing.T) {
			p := newParty(t, 3, secret)
			var strangers sync.WaitGroup
			for _, say := range [][]byte{
				nil,
				{0},
				noise, []byte("GET / HTTP/1.1\r\n\r\n"), newFrame(typeBye, nil), newFrame(typeHello, noise[:100]),
				{0xff, 0xff, 0xff, 0xff, typeHello},
				{0, 0, 0, 0, typeHello},
				{22, 3, 1, 0, 100, 1},
				hello{version: version, rank: 1, size: 3, job: "another"}.frame(),
			} {
				conn, err := net.Dial("tcp", p.ranks[0].cfg.Addr)
				require.NoError(t, err)
				defer conn.Close()
				strangers.Go(func() {
					_, _ = conn.Write(say) // it may have been closed
					_, _ = io.Copy(io.Discard, conn)
				})
			}
			p.run(exchange)
			p.noErrors()
			strangers.Wait() // Close has ended those that said nothing
		})
	}
}

// TestOtherJob: a rank waits while another job has the port.
func TestOtherJob(t *testing.T) {
	first, second := newParty(t, 2, secretA), newParty(t, 2, secretA)
	require.NoError(t, second.ranks[0].cfg.Listener.Close())
	second.ranks[0].cfg.Listener = nil
	for _, r := range second.ranks {
		r.cfg.Addr, r.cfg.Job = first.ranks[0].cfg.Addr, "second"
	}
	var all sync.WaitGroup
	refused := make(chan struct{})
	all.Go(func() {
		first.ranks[0].run(func(r *rank) error {
			close(refused)
			return exchange(r)
		})
	})
	<-refused
	all.Go(func() { second.run(exchange) })
	require.Eventually(t, func() bool {
		h := first.ranks[0].b.server.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.refused >= 2 // both of the second have called
	}, time.Minute, time.Millisecond)
	first.ranks[1].run(exchange)
	all.Wait()
	first.noErrors()
	second.noErrors()
}
