package rendezvous

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// strangersAt opens n connections that say nothing and stay.
func strangersAt(t *testing.T, addr string, n int) {
	t.Helper()
	for range n {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// TestSilentStrangersKeepNobodyOut: more silent connections than rank 0 keeps, which nothing
// but their number ends, and the ranks meet all the same.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	for name, secret := range map[string]string{"plain": "", "secret": secretA} {
		t.Run(name, func(t *testing.T) {
			p := newParty(t, 3, secret)
			for _, r := range p.ranks {
				r.cfg.greet = time.Hour
			}
			strangersAt(t, p.ranks[0].cfg.Addr, 2*maxStrangers)
			p.run(exchange)
			p.noErrors()
		})
	}
}

// fewDescriptors is a listener of a process that may have no more than most connections.
type fewDescriptors struct {
	net.Listener
	most int64
	open atomic.Int64
}

type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func (l *fewDescriptors) Accept() (net.Conn, error) {
	if l.open.Load() == l.most {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &counted{Conn: conn, open: &l.open}, nil
}

// TestOutOfDescriptors: strangers that have all descriptors of rank 0 lose them.
func TestOutOfDescriptors(t *testing.T) {
	p := newParty(t, 3, "")
	for _, r := range p.ranks {
		r.cfg.greet = time.Hour
	}
	p.ranks[0].cfg.Listener = &fewDescriptors{Listener: p.ranks[0].cfg.Listener, most: 8}
	strangersAt(t, p.ranks[0].cfg.Addr, 20)
	p.run(exchange)
	p.noErrors()
}

// TestStrangersKillNothing: without a secret anybody can send a HELLO. One that does not
// fit is refused and counted, its sender hears why, and the job goes on.
func TestStrangersKillNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		hi   hello
		text string
	}{
		{"other version", hello{version: 7, rank: 1, size: 2, job: "test"}, "speaks version 7 of the rendezvous, rank 0 version 1"},
		{"other size", hello{version: version, rank: 1, size: 99, job: "test"}, "says that there are 99 ranks, rank 0 that there are 2"},
		{"out of range", hello{version: version, rank: 2, size: 2, job: "test"}, "says that it is rank 2 of 2"},
		{"far out of range", hello{version: version, rank: 1 << 31, size: 2, job: "test"}, "rank 2147483648 of 2"},
		{"rank 0", hello{version: version, rank: 0, size: 2, job: "test"}, "two processes say that they are rank 0"},
		{"a rank that is there", hello{version: version, rank: 1, size: 2, job: "test"}, "two processes say that they are rank 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newParty(t, 2, "")
			over := make(chan struct{})
			p.run(func(r *rank) error {
				if r.cfg.Rank == 0 {
					defer close(over)
				}
				if err := exchange(r); err != nil {
					return err
				}
				if r.cfg.Rank > 0 {
					<-over // it is there
					return nil
				}
				typ, rest, err := call(t, p, c.hi.frame())
				assert.NoError(t, err)
				assert.Equal(t, typeAbort, typ)
				f, err := parseAbort(rest, 1<<16)
				assert.NoError(t, err)
				assert.Equal(t, board.Mistake, f.Kind)
				assert.Contains(t, f.Text, c.text)
				h := r.b.server.hub
				h.mu.Lock()
				defer h.mu.Unlock()
				assert.Equal(t, 1, h.refused)
				assert.Contains(t, h.why, c.text)
				assert.Nil(t, h.failed)
				return nil
			})
			p.noErrors()
		})
	}
}

// TestRefusedRankHearsWhy: a rank that does not fit ends with the reason, and the others
// have it in their report at the deadline.
func TestRefusedRankHearsWhy(t *testing.T) {
	testenv.Long(t, "a deadline of seconds has to pass")
	t.Parallel()
	p := newParty(t, 3, "")
	p.ranks[2].cfg.Size = 4
	const text = "says that there are 4 ranks, rank 0 that there are 3"
	var others sync.WaitGroup
	joined := make(chan struct{})
	others.Go(func() {
		p.ranks[0].run(func(r *rank) error {
			close(joined)
			return r.b.Fence(r.ctx)
		})
	})
	<-joined
	p.ranks[2].run(fence)
	p.ranks[2].says(t, 2, board.Mistake, 2, text)
	p.ranks[1].run(func(r *rank) error {
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
		defer cancel()
		return r.b.Fence(ctx)
	})
	others.Wait()
	for i := range 2 {
		p.ranks[i].says(t, i, board.Deadline, board.Nobody, "2 of 3 ranks arrived in time, missing: 2; connections refused: 1, the last one: ")
		p.ranks[i].says(t, i, board.Deadline, board.Nobody, text)
	}
}

// TestRefusalsAreLoggedInRate: strangers do not fill the log, and none is left out of the
// count.
func TestRefusalsAreLoggedInRate(t *testing.T) {
	var out bytes.Buffer
	var now clock.Manual
	h := newHub(&Config{Size: 1, Logger: slog.New(slog.NewTextHandler(&out, nil)), clock: &now})
	for range 1000 {
		h.refuse("192.0.2.1:1", io.EOF)
	}
	require.Equal(t, mostLines, strings.Count(out.String(), "\n"))
	require.Equal(t, 1000, h.refused)
	out.Reset()
	now.Advance(linesPeriod)
	h.refuse("192.0.2.1:2", io.EOF)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "995")
}

// TestEarly: a rank that has left a board waits for the job's next one while rank 0 is still
// at the first.
func TestEarly(t *testing.T) {
	for _, secret := range []string{"", secretA} {
		p := newParty(t, 2, secret)
		refused := make(chan struct{})
		p.ranks[0].cfg.Logger = slog.New(&early{Handler: slog.DiscardHandler, seen: sync.OnceFunc(func() { close(refused) })})
		addr := p.ranks[0].cfg.Addr
		p.run(func(r *rank) error {
			if err := r.b.Fence(r.ctx); err != nil {
				return err
			}
			if r.cfg.Rank == 0 {
				<-refused
				if err := r.b.Close(); err != nil {
					return err
				}
				l, err := net.Listen("tcp", addr)
				if err != nil {
					return err
				}
				r.cfg.Listener = l
			} else if err := r.b.Close(); err != nil {
				return err
			}
			var err error
			if r.b, err = Join(r.ctx, r.cfg); err != nil {
				return err
			}
			return r.b.Fence(r.ctx)
		})
		p.noErrors()
	}
}

// early is a log that looks for the line about a rank that comes early.
type early struct {
	slog.Handler
	seen func()
}

func (e *early) Enabled(context.Context, slog.Level) bool { return true }

func (e *early) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" && strings.Contains(a.Value.String(), errEarly.Error()) {
			e.seen()
		}
		return true
	})
	return nil
}
