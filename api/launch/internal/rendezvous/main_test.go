package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/api/launch/internal/board"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// party are the ranks of a job, each with its Config.
type party struct {
	t     *testing.T
	ctx   context.Context
	ranks []*rank
}

type rank struct {
	cfg Config
	ctx context.Context
	b   *Board
	err error

	joined chan struct{} // closed after Join
}

// newParty has n ranks that meet at a free port, with a secret or without.
func newParty(t *testing.T, n int, secret string) *party {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the machine may be busy
	t.Cleanup(cancel)
	p := &party{t: t, ctx: ctx}
	for r := range n {
		cfg := Config{
			Rank: r, Size: n, Addr: l.Addr().String(), Job: "test", Logger: slog.New(slog.DiscardHandler),
			linger: time.Minute, // for ranks that come late on a busy machine, see heard
		}
		if r == 0 {
			cfg.Listener = l
		}
		cfg.secure(t, secret)
		p.ranks = append(p.ranks, &rank{cfg: cfg, ctx: ctx, joined: make(chan struct{})})
	}
	return p
}

func (cfg *Config) secure(t *testing.T, secret string) {
	cfg.Server, cfg.Client = nil, nil
	if secret == "" {
		return
	}
	a, err := jobcert.FromSecret([]byte(secret))
	require.NoError(t, err)
	cfg.Server, cfg.Client, err = a.Launch()
	require.NoError(t, err)
}

// heard tells rank 0 that nobody will come any more who has to get the reason of a failure.
func (p *party) heard() {
	<-p.ranks[0].joined
	if b := p.ranks[0].b; b != nil {
		h := b.server.hub
		h.mu.Lock()
		h.come = len(h.members)
		h.mu.Unlock()
		h.tick()
	}
}

// run has each rank join, call fn, and take leave, all at the same time.
func (p *party) run(fn func(r *rank) error) {
	var zero, others sync.WaitGroup
	zero.Go(func() { p.ranks[0].run(fn) })
	for _, r := range p.ranks[1:] {
		others.Go(func() { r.run(fn) })
	}
	others.Wait()
	p.heard()
	zero.Wait()
}

func (r *rank) run(fn func(r *rank) error) {
	r.b, r.err = Join(r.ctx, r.cfg)
	close(r.joined)
	if r.err != nil {
		return
	}
	r.err = fn(r)
	r.err = errors.Join(r.err, r.b.Close())
}

func (p *party) noErrors() {
	p.t.Helper()
	for _, r := range p.ranks {
		require.NoError(p.t, r.err, "rank %d", r.cfg.Rank)
	}
}

// allSay checks that every rank has an error with that text, of that kind.
func (p *party) allSay(kind board.Kind, of int, text string) {
	p.t.Helper()
	for i, r := range p.ranks {
		r.says(p.t, i, kind, of, text)
	}
}

func (r *rank) says(t *testing.T, i int, kind board.Kind, of int, text string) {
	t.Helper()
	if !assert.Error(t, r.err, "process %d, rank %d", i, r.cfg.Rank) {
		return
	}
	var f *board.Failure
	if assert.ErrorAs(t, r.err, &f, "process %d, rank %d: %v", i, r.cfg.Rank, r.err) {
		assert.Equal(t, kind, f.Kind, "process %d, rank %d: %v", i, r.cfg.Rank, r.err)
		assert.Equal(t, of, f.Rank, "process %d, rank %d: %v", i, r.cfg.Rank, r.err)
	}
	assert.ErrorContains(t, r.err, text, "process %d, rank %d", i, r.cfg.Rank)
}

func fence(r *rank) error { return r.b.Fence(r.ctx) }

// exchange puts and gets for some rounds.
func exchange(r *rank) error {
	for round := range 4 {
		key := func(rank int) string { return fmt.Sprintf("r%d.%d", round, rank) }
		value := func(rank int) string { return string(make([]byte, rank*100*round)) + fmt.Sprint(rank, round) }
		if err := r.b.Put(r.ctx, key(r.cfg.Rank), []byte(value(r.cfg.Rank))); err != nil {
			return err
		}
		if err := r.b.Fence(r.ctx); err != nil {
			return err
		}
		for other := range r.cfg.Size {
			got, ok, err := r.b.Get(r.ctx, key(other))
			if err != nil || !ok || string(got) != value(other) {
				return fmt.Errorf("rank %d round %d: of rank %d: %q, %v, %w", r.cfg.Rank, round, other, got, ok, err)
			}
		}
	}
	if _, ok, err := r.b.Get(r.ctx, "nobody"); ok || err != nil {
		return fmt.Errorf("what nobody put: %v %w", ok, err)
	}
	return nil
}

const secretA, secretB = "secret of job A, long enough", "secret of job B, long enough"

func TestExchange(t *testing.T) {
	for _, n := range []int{1, 2, 5, 33} {
		for _, secret := range []string{"", secretA} {
			t.Run(fmt.Sprintf("%d/%v", n, secret != ""), func(t *testing.T) {
				p := newParty(t, n, secret)
				p.run(exchange)
				p.noErrors()
			})
		}
	}
}

func TestLocal(t *testing.T) {
	p := newParty(t, 2, "")
	p.run(func(r *rank) error {
		if err := r.b.Fence(r.ctx); err != nil {
			return err
		}
		if a := r.b.Local().String(); a != "127.0.0.1" {
			return fmt.Errorf("rank %d is at %s", r.cfg.Rank, a)
		}
		return r.b.Fence(r.ctx)
	})
	p.noErrors()
}

// TestLocalOfTwoHosts: ranks on rank 0's host, which may know it by a name for loopback, are
// where those of other hosts found it.
func TestLocalOfTwoHosts(t *testing.T) {
	p := newParty(t, 4, "")
	l, err := net.Listen("tcp4", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	p.ranks[0].cfg.Listener = l
	for i, r := range p.ranks { // ranks 2 and 3 are on another host, and find this one as 127.0.0.3
		r.cfg.Addr = net.JoinHostPort([]string{"127.0.0.1", "127.0.0.3"}[i/2], port)
		r.cfg.near = func(conn net.Conn) bool {
			return i < 2 && addrOf(conn.LocalAddr()).String() != "127.0.0.3"
		}
	}
	p.run(func(r *rank) error {
		if err := r.b.Fence(r.ctx); err != nil {
			return err
		}
		want := []string{"127.0.0.3", "127.0.0.3", "127.0.0.1", "127.0.0.1"}[r.cfg.Rank]
		if a := r.b.Local().String(); a != want {
			return fmt.Errorf("rank %d is at %s", r.cfg.Rank, a)
		}
		return r.b.Fence(r.ctx)
	})
	p.noErrors()
}

// TestEntries: refused entries leave the board as it was.
func TestEntries(t *testing.T) {
	p := newParty(t, 1, "")
	p.run(func(r *rank) error {
		for _, key := range []string{"", "a b", "a=b", "a;b", "ä", string(make([]byte, 41))} {
			assert.ErrorIs(t, r.b.Put(r.ctx, key, nil), board.ErrEntry, "key %q", key)
		}
		assert.ErrorIs(t, r.b.Put(r.ctx, "k", make([]byte, board.MaxValue+1)), board.ErrEntry)
		for i := range 15 {
			assert.NoError(t, r.b.Put(r.ctx, fmt.Sprint("k", i), make([]byte, board.MaxValue)))
		}
		assert.ErrorIs(t, r.b.Put(r.ctx, "k15", make([]byte, board.MaxValue)), board.ErrEntry)
		return r.b.Fence(r.ctx)
	})
	p.noErrors()
}

func TestClosed(t *testing.T) {
	p := newParty(t, 2, "")
	p.run(func(r *rank) error {
		if err := r.b.Fence(r.ctx); err != nil {
			return err
		}
		err := r.b.Close()
		assert.ErrorIs(t, r.b.Fence(r.ctx), net.ErrClosed)
		assert.ErrorIs(t, r.b.Put(r.ctx, "k", nil), net.ErrClosed)
		_, _, e := r.b.Get(r.ctx, "k")
		assert.ErrorIs(t, e, net.ErrClosed)
		return err
	})
	p.noErrors()
}
