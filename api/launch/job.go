package launch

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/errtext"
)

// Job is this process as a member of a job, with a board for byte strings and without
// an endpoint, for programs that open their own. It must not be used by several
// goroutines at a time.
type Job struct {
	Rank, Size           int
	LocalRank, LocalSize int
	// Launcher describes the launcher for people: "hydra: PMI-1 on descriptor 5".
	Launcher string

	at       carrier
	env      *environment
	stays    bool
	hosts    int      // that the ranks are on
	names    []string // of the ranks, for errors and logs
	gathered int
	closed   bool
}

// Join finds the launcher of this process and meets the other ranks. All ranks must call
// it, and then Fence and Allgather in the same order. cfg.Timeout is for Join alone;
// later calls have contexts of their own.
func Join(ctx context.Context, cfg Config) (_ *Job, err error) {
	defer errtext.Wrap("launch", "join", &err)
	e, err := cfg.resolve()
	if err != nil {
		e.breakOff(ctx)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	return e.meet(ctx)
}

func (e *environment) meet(ctx context.Context) (*Job, error) {
	p, err := e.find()
	if err != nil {
		return nil, err
	}
	e.Logger.Debug("launch: found", "launcher", p.launcher)
	at, err := p.join(ctx, e, p)
	if err != nil {
		return nil, public(p.launcher, err)
	}
	j := &Job{
		Rank: p.rank, Size: p.size, LocalRank: p.localRank, LocalSize: p.localSize,
		Launcher: p.launcher, at: at, env: e, stays: p.stays,
	}
	if err := j.greet(ctx); err != nil {
		_ = j.Close() // the first error is the cause
		return nil, err
	}
	level := slog.LevelDebug // one of them is sufficient
	if j.Rank == 0 {
		level = slog.LevelInfo
	}
	e.Logger.Log(ctx, level, "launch: all ranks have met", "launcher", j.Launcher, "rank", j.Rank, "size", j.Size,
		"local rank", j.LocalRank, "local size", j.LocalSize)
	return j, nil
}

// Put puts a value of at most 64 KiB on the board. Others see it after the next Fence; a
// key is put once, by one rank. Keys are 1 to 32 letters, digits, '.', '-' and '_'.
func (j *Job) Put(ctx context.Context, key string, value []byte) (err error) {
	defer errtext.Wrap("launch", "put", &err)
	return j.put(ctx, "u."+key, value)
}

// Get returns a value that a rank put before the last Fence.
func (j *Job) Get(ctx context.Context, key string) (_ []byte, err error) {
	defer errtext.Wrap("launch", "get", &err)
	return j.value(ctx, "u."+key)
}

// Fence waits until all ranks have called it.
func (j *Job) Fence(ctx context.Context) (err error) {
	defer errtext.Wrap("launch", "fence", &err)
	if j.closed {
		return public(j.Launcher, net.ErrClosed)
	}
	return public(j.Launcher, j.at.Fence(ctx))
}

// Allgather returns the values of all ranks, indexed by rank. All must call it.
func (j *Job) Allgather(ctx context.Context, value []byte) (_ [][]byte, err error) {
	defer errtext.Wrap("launch", "allgather", &err)
	n := j.gathered
	j.gathered++
	key := func(rank int) string { return fmt.Sprintf("g%d.%d", n, rank) }
	if err := j.put(ctx, key(j.Rank), value); err != nil {
		return nil, err
	}
	if err := j.Fence(ctx); err != nil {
		return nil, err
	}
	all := make([][]byte, j.Size)
	for r := range all {
		v, err := j.value(ctx, key(r))
		if err != nil {
			return nil, err
		}
		all[r] = v
	}
	return all, nil
}

func (j *Job) put(ctx context.Context, key string, value []byte) error {
	if j.closed {
		return public(j.Launcher, net.ErrClosed)
	}
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	return public(j.Launcher, j.at.Put(ctx, key, value))
}

func (j *Job) value(ctx context.Context, key string) ([]byte, error) {
	if j.closed {
		return nil, public(j.Launcher, net.ErrClosed)
	}
	v, ok, err := j.at.Get(ctx, key)
	if err != nil {
		return nil, public(j.Launcher, err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoKey, key)
	}
	return v, nil
}

// Abort informs the other ranks that this one gives up, and why, and closes the job.
// Over PMI the launcher then ends all processes, this one included.
func (j *Job) Abort(reason error) {
	if j.closed {
		return
	}
	j.closed = true
	j.at.Abort(reason.Error())
}

// Close signs off at the others and at the launcher. It may be called again. A rank that
// still waits for this one gets an error.
func (j *Job) Close() (err error) {
	defer errtext.Wrap("launch", "close", &err)
	if j.closed {
		return nil
	}
	j.closed = true
	return j.at.Close()
}
