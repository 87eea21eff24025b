//go:build unix

package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// The ranks are the test binary: their task is their last argument.
func TestMain(m *testing.M) {
	if what := os.Getenv("LOCAL_TEST_MAIN"); what != "" {
		local.Main(3, program(what))
	}
	if os.Getenv("EFACTOR_RANK") != "" {
		local.Main(1, program(os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

func program(what string) func(context.Context) error {
	return func(ctx context.Context) error {
		g, err := launch.Init(ctx)
		if err != nil {
			return err
		}
		defer g.Close()
		fmt.Printf("rank %d of %d\n", g.Rank, g.Size)
		switch what {
		case "ring":
			return ring(ctx, g)
		case "one fails":
			if g.Rank == 1 {
				return errors.New("on purpose")
			}
			<-ctx.Done()
			return ctx.Err()
		case "one exits":
			if g.Rank == 2 {
				os.Exit(7)
			}
			<-ctx.Done()
			return ctx.Err()
		case "twice":
			if err := g.Close(); err != nil {
				return err
			}
			again, err := launch.Init(ctx)
			if err != nil {
				return err
			}
			return again.Close()
		case "cleans up":
			<-ctx.Done()
			<-clock.NewTimer(300 * time.Millisecond).C // time for another signal
			fmt.Println("cleaned up")
			return ctx.Err()
		case "much":
			fmt.Println(strings.Repeat("x", 100<<10))
			return nil
		case "one is deaf":
			if g.Rank == 0 {
				return errors.New("on purpose")
			}
			select {}
		}
		return fmt.Errorf("no program %q", what)
	}
}

// ring passes a number around.
func ring(ctx context.Context, g *launch.Group) error {
	next := g.Peers[(g.Rank+1)%g.Size]
	buf := make([]byte, 1)
	if g.Rank == 0 {
		if err := g.Endpoint.Send(ctx, next, []byte{0}); err != nil {
			return err
		}
	}
	if _, err := g.Endpoint.Recv(ctx, buf); err != nil {
		return err
	}
	if g.Rank == 0 {
		if int(buf[0]) != g.Size-1 {
			return fmt.Errorf("came back as %d", buf[0])
		}
		return nil
	}
	return g.Endpoint.Send(ctx, next, []byte{buf[0] + 1})
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestStart(t *testing.T) {
	var out, log bytes.Buffer
	err := local.Start(testContext(t), 4, []string{"ring"}, &out, &log)
	require.NoError(t, err, "%s%s", out.String(), log.String())
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	assert.Equal(t, []string{"[1] rank 1 of 4", "[2] rank 2 of 4", "[3] rank 3 of 4", "rank 0 of 4"}, got)
}

// TestTwice: the port is free for another time.
func TestTwice(t *testing.T) {
	var out, log bytes.Buffer
	err := local.Start(testContext(t), 3, []string{"twice"}, &out, &log)
	require.NoError(t, err, "%s%s", out.String(), log.String())
}

// TestSlowReader: output of ranks is not lost if it is not read for a while, and a line
// without an end is not kept forever.
func TestSlowReader(t *testing.T) {
	testenv.Long(t, "a reader stands still for seconds")
	n := 0
	pause := sync.OnceFunc(func() { <-clock.NewTimer(local.Grace + 500*time.Millisecond).C })
	out := writer(func(p []byte) (int, error) { pause(); n += bytes.Count(p, []byte("x")); return len(p), nil })
	require.NoError(t, local.Start(testContext(t), 3, []string{"much"}, out, os.Stderr))
	assert.Equal(t, 3*100<<10, n)
}

// TestInterrupted: Ctrl-C goes to all processes of the terminal, and each rank has the
// time to clean up all the same.
func TestInterrupted(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.CommandContext(testContext(t), os.Args[0], "cleans up")
		cmd.Env = append(os.Environ(), "LOCAL_TEST_MAIN=cleans up")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		to := cmd.Process.Pid
		if s == syscall.SIGINT {
			to = -to
		}
		var said []string
		for in := bufio.NewScanner(out); in.Scan(); {
			if said = append(said, in.Text()); len(said) == 3 { // all of them are there
				require.NoError(t, syscall.Kill(to, s))
			}
		}
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Len(t, said, 6, "%q", said)
		assert.Equal(t, 128+int(s), exit.ExitCode())
	}
}

// TestOneFails: the others end, and the error is that of the one.
func TestOneFails(t *testing.T) {
	for _, c := range []struct{ what, want, said string }{
		{"one fails", "rank 1: exit status 1", "[1] " + filepath.Base(os.Args[0]) + ": on purpose"},
		{"one exits", "rank 2: exit status 7", ""},
		{"one is deaf", "rank 0: exit status 1", "on purpose"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.what == "one is deaf" {
				testenv.Long(t, "TestCanceled has deaf ranks, too")
			}
			var out, log bytes.Buffer
			err := local.Start(testContext(t), 3, []string{c.what}, &out, &log)
			require.EqualError(t, err, "local: start: "+c.want)
			assert.Contains(t, log.String(), c.said)
		})
	}
}

func TestCanceled(t *testing.T) {
	testenv.Long(t, "a deaf rank has seconds to end")
	ctx, cancel := context.WithCancel(testContext(t))
	out := writer(func(p []byte) (int, error) { cancel(); return len(p), nil })
	err := local.Start(ctx, 2, []string{"one is deaf"}, out, &bytes.Buffer{})
	require.Error(t, err)
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestMainEnds: the program's own status and words.
func TestMainEnds(t *testing.T) {
	for _, c := range []struct {
		what   string
		status int
	}{{"ring", 0}, {"one fails", 1}, {"one exits", 7}} {
		t.Run(c.what, func(t *testing.T) {
			cmd := exec.CommandContext(testContext(t), os.Args[0], c.what)
			cmd.Env = append(os.Environ(), "LOCAL_TEST_MAIN="+c.what)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = nil
			}
			require.NoError(t, err)
			assert.Equal(t, c.status, cmd.ProcessState.ExitCode(), "%s", out)
			for r := range 3 * (1 - min(c.status, 1)) {
				assert.Contains(t, string(out), fmt.Sprintf("rank %d of 3\n", r))
			}
		})
	}
}
