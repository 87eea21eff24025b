package coll_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/internal/testenv"
)

func init() {
	jobs["until one stands still"] = func(ctx context.Context, c *coll.Comm, _ string) error {
		buf := make([]float64, 1000)
		var err error
		for i := 0; err == nil; i++ {
			if i == 3 {
				fmt.Println("begun")
			}
			err = coll.Allreduce(ctx, c, buf, buf, coll.Max)
		}
		var re *coll.RankError
		if !errors.As(err, &re) {
			return err
		}
		fmt.Println("still:", re.Rank)
		_, _ = io.Copy(io.Discard, os.Stdin) // the others need not end for the one to know
		if err := c.Close(ctx); !errors.As(err, &re) {
			return fmt.Errorf("Close: %w", err)
		}
		return nil
	}
}

// TestStop: a process is stopped for longer than PeerTimeout. All others name it, and so does
// it when it goes on, although they live and say no more to it.
func TestStop(t *testing.T) {
	testenv.Long(t, "PeerTimeout has to pass")
	for _, n := range []int{2, 4} {
		ps := startProcesses(t, n, "until one stands still", "3s")
		says := func(p *process, text string) {
			require.True(t, p.out.Scan())
			require.Equal(t, text, p.out.Text())
		}
		for _, p := range ps {
			says(p, "begun")
		}
		victim := n / 2
		require.NoError(t, ps[victim].cmd.Process.Signal(syscall.SIGSTOP))
		for i, p := range ps {
			if i != victim {
				says(p, fmt.Sprint("still: ", victim))
			}
		}
		require.NoError(t, ps[victim].cmd.Process.Signal(syscall.SIGCONT))
		says(ps[victim], fmt.Sprint("still: ", victim))
		for _, p := range ps {
			require.NoError(t, p.in.Close())
		}
		for _, p := range ps {
			out, err := p.wait()
			require.NoError(t, err, out)
		}
	}
}
