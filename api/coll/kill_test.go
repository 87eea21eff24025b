package coll_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

func init() {
	jobs["until one dies"] = func(ctx context.Context, c *coll.Comm, _ string) error {
		buf := make([]float64, 100_000)
		for i := 0; ; i++ {
			if i == 3 {
				fmt.Println("begun")
			}
			err := coll.Allreduce(ctx, c, buf, buf, coll.Max)
			if err == nil {
				continue
			}
			var re *coll.RankError
			if !errors.As(err, &re) || !errors.Is(err, efa.ErrPeerFailed) {
				return err
			}
			fmt.Println("dead:", re.Rank)
			if err := c.Close(ctx); !errors.As(err, &re) {
				return fmt.Errorf("Close: %w", err)
			}
			return nil
		}
	}
}

// TestKill: a process is killed, and all others name it.
func TestKill(t *testing.T) {
	for _, n := range []int{2, 4} {
		ps := startProcesses(t, n, "until one dies", "")
		for _, p := range ps {
			require.True(t, p.out.Scan())
			require.Equal(t, "begun", p.out.Text())
		}
		victim := n / 2
		began := clock.System.Now()
		require.NoError(t, ps[victim].cmd.Process.Kill())
		for i, p := range ps {
			out, err := p.wait()
			if i != victim {
				require.NoError(t, err, out)
				require.Equal(t, fmt.Sprintln("dead:", victim), out)
			}
		}
		require.Less(t, clock.System.Now().Sub(began), 30*time.Second, "PeerTimeout had to tell")
	}
}
