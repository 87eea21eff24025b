//go:build linux

package coll_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/internal/netlab"
	"github.com/efactor/efactor/internal/testenv"
)

const (
	// envHost makes the test's binary a rank on a host of its own; its value is the
	// task.
	envHost = "COLL_TEST_HOST"

	hostRanks   = 6
	hostSecret  = "of the six hosts, known to them alone"
	hostTimeout = 3 * time.Second // of a silent connection
	peerTimeout = 5 * time.Second
	// hostNoticed is within what time all ranks know that a host was unplugged. It is less
	// than the defaults of both timeouts take, and leaves a busy machine the rest.
	hostNoticed = 19 * time.Second
)

// TestHostRank is the program of a rank. launch determines the rank.
func TestHostRank(t *testing.T) {
	job := os.Getenv(envHost)
	if job == "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := launch.Config{Fabric: efa.Config{DeviceName: "tcp"}}
	if job == "endless" { // where packets are lost, connections take seconds now and then
		cfg.Fabric.TCP.Timeout, cfg.Endpoint.Protocol.PeerTimeout = hostTimeout, peerTimeout
	}
	g, err := cfg.Init(ctx)
	require.NoError(t, err)
	c, err := coll.New(coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers})
	require.NoError(t, err)
	fmt.Println("began", g.Endpoint.Address())
	switch job {
	case "right":
		require.NoError(t, abridged(ctx, c))
		require.NoError(t, c.Close(ctx))
	case "endless":
		require.NoError(t, coll.Barrier(ctx, c))
		fmt.Println("together")
		err := endless(ctx, c, 7)
		var re *coll.RankError
		require.ErrorAs(t, err, &re)
		fmt.Println("lost", re.Rank, errors.Is(err, efa.ErrPeerFailed))
		_ = c.Close(ctx)
	}
	require.NoError(t, g.Close())
	fmt.Println("closed")
}

// abridged is every algorithm of every collective, with a few of the types and lengths
// that everything has.
func abridged(ctx context.Context, c *coll.Comm) error {
	i := 0
	for _, name := range coll.Collectives() {
		for _, alg := range coll.Algorithms(name) {
			for _, n := range []int{0, 5, 24 << 10} {
				i++
				k := rand.New(rand.NewPCG(uint64(i), 0)).IntN(len(kinds))
				if n > 1000 {
					k = 0
				}
				tr := trial{
					kind: name, seed: uint64(i), n: n, root: i % c.Size(), op: i % kinds[k].ops, inPlace: i%2 == 0,
					alloc: i%4 < 2, opts: []coll.Option{coll.Use(alg)},
				}
				if name[len(name)-1] == 'v' || name == "reducescatter" && i%2 == 0 {
					for r := range c.Size() {
						tr.counts = append(tr.counts, (n*(r+i)%7+r)/3)
					}
				}
				p, err := kinds[k].begin(ctx, c, tr, i%3 > 0)
				if err == nil {
					err = p.wait(ctx)
				}
				if err != nil {
					return fmt.Errorf("%s, %s, %v: %w", alg, kinds[k].name, tr, err)
				}
			}
		}
	}
	return nil
}

// hostRank is a rank, seen from the test.
type hostRank struct {
	t     *testing.T
	rank  int
	cmd   *exec.Cmd
	lines chan string
}

// startRanks starts a rank on each host, as a launcher would.
func startRanks(t *testing.T, l *netlab.Lab, job string) []*hostRank {
	t.Helper()
	var all []*hostRank
	for i, h := range l.Hosts() {
		c := h.Command(os.Args[0], "-test.run=^TestHostRank$", "-test.count=1")
		c.Env = append(os.Environ(), envHost+"="+job,
			fmt.Sprint("EFACTOR_RANK=", i), fmt.Sprint("EFACTOR_SIZE=", len(l.Hosts())),
			"EFACTOR_LOCAL_RANK=0", "EFACTOR_LOCAL_SIZE=1",
			"EFACTOR_RENDEZVOUS="+l.Host(0).Addr().String()+":7777",
			"EFACTOR_ADDR="+h.Addr().String(), "EFACTOR_JOB_SECRET="+hostSecret)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		r := &hostRank{t, i, c, make(chan string, 64)}
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer close(r.lines)
			for in := bufio.NewScanner(out); in.Scan(); {
				r.lines <- in.Text()
			}
		}()
		t.Cleanup(func() {
			_ = c.Process.Kill()
			<-read
			_ = c.Wait()
		})
		all = append(all, r)
	}
	return all
}

// says waits for a line that begins so, and returns the rest.
func (r *hostRank) says(ctx context.Context, word string) string {
	r.t.Helper()
	for {
		select {
		case line, ok := <-r.lines:
			require.True(r.t, ok, "rank %d has ended, and never said %q", r.rank, word)
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest)
			}
			if strings.Contains(line, "FAIL") {
				for more := range r.lines { // why
					line += "\n" + more
				}
				require.FailNow(r.t, "a rank fails", "rank %d: %s", r.rank, line)
			}
			r.t.Logf("rank %d: %s", r.rank, line)
		case <-ctx.Done():
			require.FailNow(r.t, "silence", "rank %d never said %q", r.rank, word)
		}
	}
}

// TestHosts: all collectives on six hosts over tcp with mutual TLS, on networks that
// lose packets, or take their time.
func TestHosts(t *testing.T) {
	testenv.Long(t, "hosts of a lab")
	for _, c := range []struct {
		name string
		lab  netlab.Options
		loss int
	}{
		{"loss", netlab.Options{Hosts: hostRanks}, 1},
		{"delay", netlab.Options{Hosts: hostRanks, Delay: 10 * time.Millisecond}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := netlab.New(t, c.lab)
			for _, h := range l.Hosts() {
				h.Loss(c.loss)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			ranks := startRanks(t, l, "right")
			for i, r := range ranks {
				address := r.says(ctx, "began")
				require.Contains(t, address, l.Host(i).Addr().String())
				require.NotContains(t, address, ";", "tcp alone")
			}
			for _, r := range ranks {
				r.says(ctx, "closed")
			}
		})
	}
}

// TestHostUnplugged: a host loses its cable in the middle. All ranks get an error in
// time, and blame that one, as it does itself.
func TestHostUnplugged(t *testing.T) {
	testenv.Long(t, "TestKill is the same on one host")
	l := netlab.New(t, netlab.Options{Hosts: hostRanks})
	const victim = 3
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ranks := startRanks(t, l, "endless")
	for _, r := range ranks {
		r.says(ctx, "together")
	}
	l.Host(victim).Unplug()
	bound, cancel := context.WithTimeout(ctx, hostNoticed)
	defer cancel()
	for i, r := range ranks {
		assert.Equal(t, fmt.Sprint(victim, " true"), r.says(bound, "lost"), "rank %d", i)
	}
}
