package launch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/launchers"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/internal/netlab"
)

const (
	labHosts = 3
	perHost  = 2
	labRanks = labHosts * perHost
	labPort  = 7777

	// labSlack is the time that a busy machine may take beyond a timeout. Without that
	// timeout it would be the two minutes of child.
	labSlack = 20 * time.Second

	labSecret   = "of three hosts, and of nobody else"
	otherSecret = "of somebody else, and just as long"
)

func init() {
	programs["everyone"] = func(ctx context.Context) (r report, err error) {
		g, err := launch.Init(ctx)
		if err != nil {
			return r, err
		}
		r = report{Rank: g.Rank, Size: g.Size, LocalRank: g.LocalRank, LocalSize: g.LocalSize, Launcher: g.Launcher}
		for _, p := range g.Peers {
			name, err := g.AddressVector.Device(p)
			if err != nil {
				return r, err
			}
			r.Devices = append(r.Devices, name)
		}
		return r, errors.Join(everyone(ctx, g), g.Close())
	}
}

// everyone has each rank send to each other, and to itself.
func everyone(ctx context.Context, g *launch.Group) error {
	text := func(from, to int) string { return fmt.Sprintf("from %d to %d", from, to) }
	sent := make(chan error, 1)
	go func() {
		var errs []error
		for r, p := range g.Peers {
			errs = append(errs, g.Endpoint.Send(ctx, p, []byte(text(g.Rank, r))))
		}
		sent <- errors.Join(errs...)
	}()
	seen := make(map[int]bool)
	for range g.Peers {
		buf := make([]byte, 64)
		m, err := g.Endpoint.Recv(ctx, buf)
		if err != nil {
			return errors.Join(err, <-sent)
		}
		from := slices.Index(g.Peers, m.From)
		if got := string(buf[:m.N]); got != text(from, g.Rank) || seen[from] {
			return fmt.Errorf("rank %d got %q of rank %d", g.Rank, got, from)
		}
		seen[from] = true
	}
	return <-sent
}

// cluster are hosts that share neither network nor memory nor names.
type cluster struct {
	*netlab.Lab
	t     *testing.T
	hosts string // file for /etc/hosts
}

func newCluster(t *testing.T) *cluster {
	launchers.Need(t, "unshare", "ss", "mount")
	c := &cluster{netlab.New(t, netlab.Options{Hosts: labHosts}), t, filepath.Join(t.TempDir(), "hosts")}
	text := "127.0.0.1 localhost\n"
	for i, h := range c.Hosts() {
		text += fmt.Sprintf("%s node%d\n", h.Addr(), i+1)
	}
	require.NoError(t, os.WriteFile(c.hosts, []byte(text), 0o644))
	return c
}

// script starts ranks on a host: arguments after the file for /etc/hosts and the host's
// name are words NAME=value, with the program after those of each rank.
const script = `
mount -t tmpfs none /dev/shm && mount --bind "$1" /etc/hosts && hostname "$2" || exit 99
shift 2
for rank; do env $rank & done
wait`

// start starts the ranks of each host, with the variables of each. Their output is
// complete when all have ended.
func (c *cluster) start(vars func(rank int) []string) func() ([]report, string) {
	var mu sync.Mutex
	var said bytes.Buffer
	var all sync.WaitGroup
	for i, h := range c.Hosts() {
		args := []string{"--mount", "--uts", "sh", "-c", script, "sh", c.hosts, fmt.Sprint("node", i+1)}
		for local := range perHost {
			if v := vars(i*perHost + local); v != nil {
				args = append(args, strings.Join(append(v, os.Args[0]), " "))
			}
		}
		cmd := h.Command("unshare", args...)
		cmd.Env = launchers.CleanEnv(childVar + "=everyone")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(c.t, cmd.Start())
		all.Go(func() {
			err := cmd.Wait()
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&said, "host %d: %v\n%s", i, err, out.String())
		})
	}
	return func() ([]report, string) {
		all.Wait()
		var reports []report
		for line := range strings.Lines(said.String()) {
			_, text, ok := strings.Cut(line, "report ")
			var r report
			if ok && json.Unmarshal([]byte(text), &r) == nil {
				reports = append(reports, r)
			}
		}
		return reports, said.String()
	}
}

// own are the variables of this package; added ones take precedence.
func (c *cluster) own(rank int, add ...string) []string {
	return append([]string{
		fmt.Sprint("EFACTOR_RANK=", rank), fmt.Sprint("EFACTOR_SIZE=", labRanks),
		fmt.Sprintf("EFACTOR_RENDEZVOUS=%s:%d", c.Host(0).Addr(), labPort),
	}, add...)
}

// secret is a file with one, as words of a script have no blanks.
func secret(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return "EFACTOR_JOB_SECRET_FILE=" + path
}

// TestHosts: three hosts with two ranks each find each other, and take shared memory to
// where it leads.
func TestHosts(t *testing.T) {
	c := newCluster(t)
	good := secret(t, labSecret)
	for _, l := range []struct {
		name, launcher string
		vars           func(rank int) []string
	}{
		{"own", "env: ", func(rank int) []string { return c.own(rank, good) }},
		{"insecure", "env: ", func(rank int) []string { return c.own(rank, "EFACTOR_INSECURE=1") }},
		{"slurm", "slurm: step 7.0, rendezvous at node1:", func(rank int) []string { // finds rank 0 by its node's name
			return []string{
				good, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", fmt.Sprint("SLURM_PROCID=", rank),
				fmt.Sprint("SLURM_STEP_NUM_TASKS=", labRanks), "SLURM_STEP_NODELIST=node[1-3]",
			}
		}},
	} {
		t.Run(l.name, func(t *testing.T) {
			skipIf(t, l.name == "insecure")
			reports, out := c.start(l.vars)()
			require.Len(t, reports, labRanks, "%s", out)
			for _, r := range reports {
				require.Empty(t, r.Err, "%s", out)
				assert.Contains(t, r.Launcher, l.launcher)
				assert.Equal(t, []int{r.Rank % perHost, perHost}, []int{r.LocalRank, r.LocalSize}, "rank %d", r.Rank)
				require.Len(t, r.Devices, labRanks)
				for peer, name := range r.Devices {
					want := "tcp:" + c.Host(r.Rank/perHost).Addr().String()
					if peer/perHost == r.Rank/perHost {
						want = "shm"
					}
					assert.True(t, strings.HasPrefix(name, want), "rank %d has %s for rank %d, not %s", r.Rank, name, peer, want)
				}
			}
		})
	}
}

// TestHostsWithoutSecret: without a secret there is no connection to other hosts,
// and all ranks report the reason at once.
func TestHostsWithoutSecret(t *testing.T) {
	c := newCluster(t)
	reports, out := c.start(func(rank int) []string { return c.own(rank) })()
	require.Len(t, reports, labRanks, "%s", out)
	for _, r := range reports {
		assert.Contains(t, r.Err, "EFACTOR_INSECURE=1", "%s", out)
		assert.Contains(t, r.Err, "job secret")
	}
}

// TestHostsWrongSecret: the rank that has it reports so at once. The others cannot know
// which rank that was: they wait for it, and then report the refused connections.
func TestHostsWrongSecret(t *testing.T) {
	skipIf(t, true) // TestRefusedAreCounted and TestSecrets of the rendezvous are the same in one process
	c := newCluster(t)
	good, wrong := secret(t, labSecret), secret(t, otherSecret)
	for _, of := range []int{labRanks - 1, 0} {
		t.Run(fmt.Sprint("rank ", of), func(t *testing.T) {
			const timeout = 10 * time.Second
			reports, out := c.start(func(rank int) []string {
				s := good
				if rank == of {
					s = wrong
				}
				return c.own(rank, s, "EFACTOR_TIMEOUT="+timeout.String())
			})()
			require.Len(t, reports, labRanks, "%s", out)
			for _, r := range reports {
				assert.Contains(t, r.Err, "another job secret", "%s", out)
				assert.Less(t, r.Took, timeout+labSlack, "%s", out)
			}
		})
	}
}

// TestHostOfRank0Unplugged: all have an error when their time is up, on both ends.
func TestHostOfRank0Unplugged(t *testing.T) {
	skipIf(t, true) // TestSilentHub of the rendezvous is the same in one process
	c := newCluster(t)
	good := secret(t, labSecret)
	const timeout = 12 * time.Second
	ended := c.start(func(rank int) []string {
		if rank == 1 { // they wait for it
			return nil
		}
		return c.own(rank, good, "EFACTOR_TIMEOUT="+timeout.String())
	})
	require.Eventually(t, func() bool {
		out, err := c.Host(0).Run("ss", "-Htn", "state", "established", fmt.Sprintf("( sport = :%d )", labPort))
		return err == nil && strings.Count(out, "\n") == labRanks-perHost
	}, time.Minute, 50*time.Millisecond, "waiting for the ranks of the other hosts")
	c.Host(0).Unplug()
	reports, out := ended()
	require.Len(t, reports, labRanks-1, "%s", out)
	for _, r := range reports {
		assert.Less(t, r.Took, timeout+labSlack, "%s", out)
	}
	at := c.Host(0).Addr().String() // which some may not quite have reached
	said := strings.Count(out, "rank 0 at "+at) + strings.Count(out, "rank 0 did not answer at "+at)
	assert.Equal(t, labRanks-perHost, said, "%s", out)
	assert.Contains(t, out, "missing: 1")
}
