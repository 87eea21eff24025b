package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/testenv"
)

// TestMistakes: ranks that do not fit together all hear why, those that have the job's
// secret at once.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name  string
		twist func(p *party)
		run   func(r *rank) error
		kind  board.Kind
		of    int
		text  string
	}{
		{
			name: "one rank twice", twist: func(p *party) { p.ranks[2].cfg.Rank = 1 },
			kind: board.Mistake, of: 1, text: "two processes say that they are rank 1",
		},
		{
			name: "other size", twist: func(p *party) { p.ranks[2].cfg.Size = 4 },
			kind: board.Mistake, of: 2, text: "says that there are 4 ranks, rank 0 that there are 3",
		},
		{
			name: "one key twice", run: func(r *rank) error {
				if r.cfg.Rank > 0 {
					if err := r.b.Put(r.ctx, "same", []byte{1}); err != nil {
						return err
					}
				}
				return r.b.Fence(r.ctx)
			},
			kind: board.Mistake, of: -2, text: `key "same" was put by rank`,
		},
		{
			name: "left early", run: func(r *rank) error {
				if r.cfg.Rank == 1 {
					return nil
				}
				return r.b.Fence(r.ctx)
			},
			kind: board.Gone, of: -2, text: "left",
		},
		{
			name: "abort", run: func(r *rank) error {
				if r.cfg.Rank == 1 {
					r.b.Abort("no more paper")
					return board.Failed(1, board.GivenUp, "no more paper")
				}
				return r.b.Fence(r.ctx)
			},
			kind: board.GivenUp, of: 1, text: "no more paper",
		},
		{
			name: "abort of rank 0", run: func(r *rank) error {
				if r.cfg.Rank == 0 {
					r.b.Abort("no more paper")
					return board.Failed(0, board.GivenUp, "no more paper")
				}
				return r.b.Fence(r.ctx)
			},
			kind: board.GivenUp, of: 0, text: "no more paper",
		},
		{
			name: "dies", run: func(r *rank) error {
				if r.cfg.Rank == 2 {
					_ = r.b.conn.Close()
					return board.Failed(2, board.Gone, "rank 2 at its end went away")
				}
				return r.b.Fence(r.ctx)
			},
			kind: board.Gone, of: 2, text: "went away",
		},
		{
			name: "rank 0 dies", run: func(r *rank) error {
				if err := r.b.Fence(r.ctx); err != nil || r.cfg.Rank > 0 {
					return errors.Join(err, r.b.Fence(r.ctx))
				}
				r.b.failed = board.Failed(0, board.Gone, "rank 0 at its end went away")
				r.b.server.mu.Lock() // as the kernel does
				r.b.server.closed = true
				r.b.server.mu.Unlock()
				_ = r.b.server.l.Close()
				r.b.server.hub.mu.Lock()
				for _, m := range r.b.server.hub.members {
					_ = m.conn.Close()
				}
				r.b.server.hub.mu.Unlock()
				return r.b.failed
			},
			kind: board.Gone, of: 0, text: "went away",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newParty(t, 3, secretA)
			if c.twist != nil {
				c.twist(p)
			}
			if c.run == nil {
				c.run = fence
			}
			p.run(c.run)
			if c.name == "left early" { // it has done nothing wrong
				require.NoError(t, p.ranks[1].err)
				p.ranks[1].err = p.ranks[0].err
			}
			if c.of == -2 { // as it happens
				var f *board.Failure
				require.ErrorAs(t, p.ranks[0].err, &f)
				c.of = f.Rank
			}
			p.allSay(c.kind, c.of, c.text)
			if c.kind == board.Mistake {
				assert.ErrorIs(t, p.ranks[0].err, board.ErrMistake)
			}
		})
	}
}

// TestWrongHere: mistakes that a rank itself can see.
func TestWrongHere(t *testing.T) {
	for _, c := range []Config{{Rank: 3, Size: 3}, {Rank: -1, Size: 3}, {}, {Size: 1, Job: string(make([]byte, maxJob+1))}} {
		_, err := Join(t.Context(), c)
		assert.Error(t, err, "%+v", c)
	}
}

// call is a process that sends a HELLO of its own, and returns the answer.
func call(t *testing.T, p *party, frame []byte) (byte, []byte, error) {
	conn, err := net.Dial("tcp", p.ranks[0].cfg.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(frame)
	require.NoError(t, err)
	return readFrame(conn, maxSmall)
}

// TestOtherVersionOfHub: a rank 0 of another version is understood as far as its ABORT.
func TestOtherVersionOfHub(t *testing.T) {
	p := newParty(t, 2, "")
	l := p.ranks[0].cfg.Listener
	var hub sync.WaitGroup
	hub.Go(func() {
		conn, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, rest, err := readFrame(conn, maxSmall)
		assert.NoError(t, err)
		assert.Equal(t, uint16(version), binary.BigEndian.Uint16(rest[len(magic):]))
		_, _ = conn.Write(abortFrame(board.Failed(board.Nobody, board.Mistake, "speaks version 1, rank 0 version 9")))
	})
	p.ranks[1].run(fence)
	hub.Wait()
	p.ranks[1].says(t, 1, board.Mistake, board.Nobody, "rank 0 version 9")
}

// TestDeadline: at the first rank's deadline all learn which ranks are missing.
func TestDeadline(t *testing.T) {
	testenv.Long(t, "a deadline of seconds has to pass")
	t.Parallel()
	var tries sync.WaitGroup
	defer tries.Wait()
	for first := range 3 {
		tries.Go(func() {
			t.Run(fmt.Sprint("rank=", first), func(t *testing.T) {
				p := newParty(t, 5, "")
				p.ranks = p.ranks[:3]
				var there sync.WaitGroup
				there.Add(len(p.ranks))
				p.run(func(r *rank) error {
					there.Done()
					if r.cfg.Rank != first {
						return r.b.Fence(r.ctx)
					}
					there.Wait()
					ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
					defer cancel()
					return r.b.Fence(ctx)
				})
				p.allSay(board.Deadline, board.Nobody, "3 of 5 ranks arrived in time, missing: 3-4")
				for _, r := range p.ranks {
					assert.ErrorIs(t, r.err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// TestGivesUp: a canceled context means that the rank gives up.
func TestGivesUp(t *testing.T) {
	p := newParty(t, 3, "")
	ctx, cancel := context.WithCancelCause(p.ctx)
	p.ranks[1].ctx = ctx
	p.run(func(r *rank) error {
		if err := r.b.Fence(r.ctx); err != nil {
			return err
		}
		if r.cfg.Rank == 0 {
			cancel(errors.New("seen enough"))
			<-p.ranks[1].ctx.Done()
		}
		if r.cfg.Rank == 2 {
			return fence(r)
		}
		if r.cfg.Rank == 1 {
			<-ctx.Done()
		}
		return r.b.Fence(r.ctx)
	})
	if p.ranks[1].err != nil {
		p.allSay(board.GivenUp, 1, "rank 1 gave up: seen enough")
	} else { // all were there after all
		p.noErrors()
	}
}

// TestGivesUpAtOnce: a context that has ended before the fence is no other reason, and may
// end the frame that says so in the middle.
func TestGivesUpAtOnce(t *testing.T) {
	for of := range 2 {
		rounds := 100
		if testenv.Short() {
			rounds = 20
		}
		for range rounds {
			p := newParty(t, 2, "")
			p.run(func(r *rank) error {
				if r.cfg.Rank != of {
					return r.b.Fence(r.ctx)
				}
				if err := r.b.Put(r.ctx, "key", make([]byte, board.MaxValue)); err != nil {
					return err
				}
				ctx, cancel := context.WithCancelCause(r.ctx)
				defer cancel(nil)
				go cancel(errors.New("seen enough"))
				runtime.Gosched()
				return r.b.Fence(ctx)
			})
			if p.ranks[of].err != nil {
				p.allSay(board.GivenUp, of, fmt.Sprintf("rank %d gave up: seen enough", of))
			} else { // all were there after all
				p.noErrors()
			}
		}
	}
}

// TestNobodyThere: rank 0 never comes.
func TestNobodyThere(t *testing.T) {
	p := newParty(t, 2, "")
	require.NoError(t, p.ranks[0].cfg.Listener.Close())
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	p.ranks[1].ctx = ctx
	p.ranks[1].run(fence)
	require.ErrorIs(t, p.ranks[1].err, context.DeadlineExceeded)
	assert.ErrorContains(t, p.ranks[1].err, "rank 0 did not answer at "+p.ranks[1].cfg.Addr)
}

// TestRankZeroAtTheDoor: another rank 0 that was faster to connect than rank 0 to begin
// hears of the mistake, and is not taken for rank 0.
func TestRankZeroAtTheDoor(t *testing.T) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = conn.Write(hello{version: version, rank: 0, size: 2, job: "test"}.frame())
		require.NoError(t, err)
		b, err := Join(t.Context(), Config{
			Size: 2, Job: "test", Addr: l.Addr().String(), Listener: l, Logger: slog.New(slog.DiscardHandler), linger: time.Millisecond,
		})
		require.NoError(t, err)
		typ, rest, err := readFrame(conn, maxSmall)
		require.NoError(t, err)
		require.EqualValues(t, typeAbort, typ)
		why, err := parseAbort(rest, 2)
		require.NoError(t, err)
		require.Equal(t, board.Mistake, why.Kind)
		require.NoError(t, conn.Close())
		require.NoError(t, b.Close())
	}
}

// TestTwoRanksZero: the second finds the port in use, and both hear it.
func TestTwoRanksZero(t *testing.T) {
	t.Parallel()
	p := newParty(t, 3, secretA)
	p.ranks[2].cfg.Rank = 0
	p.run(fence)
	p.allSay(board.Mistake, 0, "two processes say that they are rank 0")
}

// TestLatecomer: a rank that connects after the failure gets the reason.
func TestLatecomer(t *testing.T) {
	t.Parallel()
	p := newParty(t, 3, secretA)
	p.ranks[1].cfg.Size = 2
	var hub sync.WaitGroup
	hub.Go(func() { p.ranks[0].run(fence) })
	p.ranks[1].run(fence)
	p.ranks[2].run(fence)
	p.heard()
	hub.Wait()
	p.allSay(board.Mistake, 1, "rank 1")
}
