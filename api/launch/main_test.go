package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	// childVar is the test binary's task instead of tests.
	childVar = "LAUNCH_TEST_CHILD"
	// reportsVar is a directory for reports: launchers may end before they have passed on
	// what a process said last.
	reportsVar = "LAUNCH_TEST_REPORTS"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childVar); what != "" {
		os.Exit(child(what))
	}
	goleak.VerifyTestMain(m)
}

// skipIf leaves a test out in the short form, if that is so.
func skipIf(t *testing.T, long bool) {
	t.Helper()
	if long {
		testenv.Long(t, "processes that wait for seconds")
	}
}

// report is a child's report at its end.
type report struct {
	Rank, Size, LocalRank, LocalSize int
	Launcher                         string
	Devices                          []string // by peer
	Err                              string
	Took                             time.Duration
}

func child(what string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	began := clock.System.Now()
	r, err := programs[what](ctx)
	status := 0
	if err != nil {
		r.Err = err.Error()
		status = 3
	}
	r.Took = clock.System.Now().Sub(began)
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	if dir := os.Getenv(reportsVar); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), text, 0o600); err != nil {
			panic(err)
		}
	}
	fmt.Printf("report %s\n", text) // in one write
	return status
}

var programs = map[string]func(context.Context) (report, error){
	"ring": func(ctx context.Context) (r report, err error) {
		g, err := launch.Init(ctx)
		if err != nil {
			return r, err
		}
		r = report{Rank: g.Rank, Size: g.Size, LocalRank: g.LocalRank, LocalSize: g.LocalSize, Launcher: g.Launcher}
		return r, errors.Join(ring(ctx, g), g.Close())
	},
	"board": func(ctx context.Context) (r report, err error) {
		j, err := launch.Join(ctx, launch.Config{})
		if err != nil {
			return r, err
		}
		r = report{Rank: j.Rank, Size: j.Size, LocalRank: j.LocalRank, LocalSize: j.LocalSize, Launcher: j.Launcher}
		return r, errors.Join(useBoard(ctx, j), j.Close())
	},
}

func init() {
	programs["dies"] = func(ctx context.Context) (r report, err error) {
		j, err := launch.Join(ctx, launch.Config{})
		if err != nil {
			return r, err
		}
		if j.Rank == 1 {
			os.Exit(9)
		}
		return r, j.Fence(ctx)
	}
	programs["farewell"] = func(ctx context.Context) (r report, err error) {
		launch.SetLinger(time.Minute) // a loaded machine may take more than a second
		g, err := launch.Init(ctx)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		r = report{Rank: g.Rank, Size: g.Size}
		if g.Rank > 0 {
			return r, g.Endpoint.Send(ctx, g.Peers[0], []byte{byte(g.Rank)}, efa.Inject)
		}
		for from := 1; from < g.Size; from++ {
			buf := make([]byte, 1)
			if _, err := g.Endpoint.Recv(ctx, buf, efa.From(g.Peers[from])); err != nil {
				return r, err
			}
			if int(buf[0]) != from {
				return r, fmt.Errorf("%d came from rank %d", buf[0], from)
			}
		}
		return r, nil
	}
	programs["twice"] = func(ctx context.Context) (r report, err error) {
		j, err := launch.Join(ctx, launch.Config{})
		if err != nil {
			return r, err
		}
		r = report{Rank: j.Rank, Size: j.Size}
		if err := j.Close(); err != nil {
			return r, err
		}
		_, err = launch.Join(ctx, launch.Config{})
		return r, err
	}
	programs["aborts"] = func(ctx context.Context) (r report, err error) {
		j, err := launch.Join(ctx, launch.Config{})
		if err != nil {
			return r, err
		}
		if j.Rank == 1 {
			j.Abort(errors.New("on purpose"))
			select {} // the launcher will end it
		}
		return r, j.Fence(ctx)
	}
}

// ring passes a number around, twice.
func ring(ctx context.Context, g *launch.Group) error {
	next, prev := g.Peers[(g.Rank+1)%g.Size], (g.Rank+g.Size-1)%g.Size
	for round := range 2 {
		sent := make(chan error, 1)
		go func() { sent <- g.Endpoint.Send(ctx, next, []byte{byte(g.Rank), byte(round)}) }()
		buf := make([]byte, 2)
		m, err := g.Endpoint.Recv(ctx, buf)
		if err := errors.Join(err, <-sent); err != nil {
			return err
		}
		if m.From != g.Peers[prev] || int(buf[0]) != prev || int(buf[1]) != round {
			return fmt.Errorf("rank %d got %v from %d", g.Rank, buf, m.From)
		}
	}
	return nil
}

// useBoard puts values of all sizes and reads those of the others.
func useBoard(ctx context.Context, j *launch.Job) error {
	sizes := []int{0, 1, 2, 500, 4096, 20000}
	value := func(rank, n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rank + i*7)
		}
		return b
	}
	key := func(rank, n int) string { return fmt.Sprintf("key_%d-%d", rank, n) }
	for _, n := range sizes {
		if err := j.Put(ctx, key(j.Rank, n), value(j.Rank, n)); err != nil {
			return err
		}
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	for r := range j.Size {
		for _, n := range sizes {
			got, err := j.Get(ctx, key(r, n))
			if err != nil {
				return err
			}
			if string(got) != string(value(r, n)) {
				return fmt.Errorf("rank %d: %s has %d bytes that differ", j.Rank, key(r, n), len(got))
			}
		}
	}
	if _, err := j.Get(ctx, "nobody"); !errors.Is(err, launch.ErrNoKey) {
		return fmt.Errorf("get of what nobody put: %w", err)
	}
	for round := range 3 {
		all, err := j.Allgather(ctx, []byte{byte(j.Rank), byte(round)})
		if err != nil {
			return err
		}
		for r, b := range all {
			if len(b) != 2 || int(b[0]) != r || int(b[1]) != round {
				return fmt.Errorf("rank %d: gathered %v of rank %d in round %d", j.Rank, b, r, round)
			}
		}
	}
	return nil
}
