package launch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/launchers"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the machine may be busy
	t.Cleanup(cancel)
	return ctx
}

// command runs one, and returns the reports of the children in it by rank, and the
// output, as far as a launcher passes it on.
func command(ctx context.Context, env []string, name string, args ...string) ([]report, string, error) {
	dir, err := os.MkdirTemp("", "launch")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(env, reportsVar+"="+dir)
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is well formed
	var reports []report
	for _, file := range files {
		text, rerr := os.ReadFile(file)
		var r report
		if rerr == nil && json.Unmarshal(text, &r) == nil { // its writer may have been ended
			reports = append(reports, r)
		}
	}
	slices.SortFunc(reports, func(a, b report) int { return a.Rank - b.Rank })
	return reports, out.String(), err
}

// wantRanks checks that all of n ranks have reported well.
func wantRanks(t *testing.T, reports []report, n int, launcher, out string) {
	t.Helper()
	require.Len(t, reports, n, "%s", out)
	for r, rep := range reports {
		assert.Equal(t, report{Rank: r, Size: n, LocalRank: r, LocalSize: n, Launcher: rep.Launcher, Took: rep.Took}, rep)
		assert.Contains(t, rep.Launcher, launcher)
	}
}

// each starts n processes of this program by itself, each with variables of its own.
func each(t *testing.T, n int, what string, vars func(rank int) []string) ([]report, string) {
	t.Helper()
	ctx := testContext(t)
	var mu sync.Mutex
	var reports []report
	var out strings.Builder
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() {
			env := launchers.CleanEnv(append(vars(r), childVar+"="+what)...)
			reps, said, _ := command(ctx, env, os.Args[0]) // the reports say how it ended
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, reps...)
			fmt.Fprintf(&out, "process %d:\n%s", r, said)
		})
	}
	all.Wait()
	slices.SortFunc(reports, func(a, b report) int { return a.Rank - b.Rank })
	return reports, out.String()
}

// TestLikeLaunchers: the variables of launchers that are not installed here.
func TestLikeLaunchers(t *testing.T) {
	for i, what := range []string{"board", "ring"} {
		for j, c := range []struct {
			name, launcher string
			vars           func(rank, port int) []string
		}{
			{"own", "env: EFACTOR_ variables", func(rank, port int) []string {
				return []string{"EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3", "EFACTOR_RENDEZVOUS=localhost:" + strconv.Itoa(port)}
			}},
			{"own with a secret", "env: EFACTOR_ variables", func(rank, port int) []string {
				return []string{
					"EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3", "EFACTOR_RENDEZVOUS=localhost:" + strconv.Itoa(port),
					"EFACTOR_JOB_SECRET=correct horse battery staple",
				}
			}},
			{"openmpi 4", "openmpi", func(rank, _ int) []string {
				return []string{
					"OMPI_COMM_WORLD_RANK=" + strconv.Itoa(rank), "OMPI_COMM_WORLD_SIZE=3",
					"OMPI_COMM_WORLD_LOCAL_RANK=" + strconv.Itoa(rank), "OMPI_COMM_WORLD_LOCAL_SIZE=3",
					"PMIX_NAMESPACE=" + t.Name() + what, "PMIX_RANK=" + strconv.Itoa(rank),
					"SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", // of the daemon
				}
			}},
			{"openmpi, told where", "openmpi", func(rank, port int) []string {
				return []string{
					"OMPI_COMM_WORLD_RANK=" + strconv.Itoa(rank), "OMPI_COMM_WORLD_SIZE=3",
					"EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(port),
				}
			}},
			{"torchrun", "torchrun, rendezvous", func(rank, port int) []string {
				return []string{
					"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=3", "LOCAL_RANK=" + strconv.Itoa(rank), "LOCAL_WORLD_SIZE=3",
					"MASTER_ADDR=localhost", "MASTER_PORT=" + strconv.Itoa(port-1),
					"TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0",
					"PMI_FD=77", "PMI_RANK=0", "PMI_SIZE=1", // of the agent, which has closed it
				}
			}},
			{"like torchrun", "torchrun's variables", func(rank, port int) []string {
				return []string{
					"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=3",
					"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.Itoa(port-1),
				}
			}},
			{"kubernetes", "kubernetes: indexed Job", func(rank, port int) []string {
				return []string{
					"JOB_COMPLETION_INDEX=" + strconv.Itoa(rank), "EFACTOR_SIZE=3",
					"EFACTOR_RENDEZVOUS=localhost:" + strconv.Itoa(port), "EFACTOR_INSECURE=1",
				}
			}},
		} {
			t.Run(what+"/"+c.name, func(t *testing.T) {
				skipIf(t, i != j%2)
				port := freeport.Get(t)
				reports, out := each(t, 3, what, func(rank int) []string { return c.vars(rank, port) })
				wantRanks(t, reports, 3, c.launcher, out)
			})
		}
	}
}

// TestMistakesTell: processes that were started wrong all say why, and long before their
// time is up. They have a secret: what anybody could send ends nobody's job.
func TestMistakesTell(t *testing.T) {
	for _, c := range []struct {
		name string
		vars [3]string // besides EFACTOR_RANK and EFACTOR_SIZE=3
		text string
	}{
		{"one rank twice", [3]string{"", "", "EFACTOR_RANK=1"}, "two processes say that they are rank 1"},
		{"rank 0 twice", [3]string{"", "", "EFACTOR_RANK=0"}, "two processes say that they are rank 0"},
		{"other sizes", [3]string{"", "EFACTOR_SIZE=4", ""}, "rank 1 at"},
		{"a bad device", [3]string{"", "", "EFACTOR_DEVICE=nonsense"}, "nonsense"},
		{"unreachable", [3]string{"", "", "EFACTOR_DEVICE=tcp"}, "cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := freeport.Get(t)
			reports, out := each(t, 3, "ring", func(rank int) []string {
				return []string{
					"EFACTOR_DEVICE=shm", "EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3",
					"EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(port), "EFACTOR_JOB_SECRET=correct horse battery staple", c.vars[rank],
				}
			})
			require.Len(t, reports, 3, "%s", out)
			for _, r := range reports {
				assert.Contains(t, r.Err, c.text, "%s", out)
			}
		})
	}
}

// TestFarewell: a message that a rank injects before it closes its group arrives, also
// when there was no connection yet.
func TestFarewell(t *testing.T) {
	for _, device := range []string{"tcp", "shm"} {
		t.Run(device, func(t *testing.T) {
			port := freeport.Get(t)
			reports, out := each(t, 3, "farewell", func(rank int) []string {
				return []string{
					"EFACTOR_DEVICE=" + device, "EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3",
					"EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(port),
				}
			})
			require.Len(t, reports, 3, "%s", out)
			for _, r := range reports {
				assert.Empty(t, r.Err, "%s", out)
			}
			assert.NotContains(t, out, "injected operation failed")
		})
	}
}

// TestDeath: the others learn at once which rank died.
func TestDeath(t *testing.T) {
	port := freeport.Get(t)
	reports, out := each(t, 3, "dies", func(rank int) []string {
		return []string{"EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3", "EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(port)}
	})
	require.Len(t, reports, 2, "%s", out)
	for _, r := range reports {
		assert.Contains(t, r.Err, "rank 1 at 127.0.0.1:")
		assert.Contains(t, r.Err, "went away")
	}
}

// TestMissing: at the deadline all learn which ranks are missing.
func TestMissing(t *testing.T) {
	skipIf(t, true) // TestDeadline of the rendezvous is the same in one process
	port := freeport.Get(t)
	reports, out := each(t, 2, "ring", func(rank int) []string {
		return []string{
			"EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=4", "EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(port),
			"EFACTOR_TIMEOUT=6s", // both must be there by then
		}
	})
	require.Len(t, reports, 2, "%s", out)
	for _, r := range reports {
		assert.Contains(t, r.Err, "2 of 4 ranks arrived in time, missing: 2-3")
	}
}
