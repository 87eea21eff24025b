package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

// TestCommands are the short forms of the commands that need nothing but this kernel. A call is given
// up late, since the machine may do other things.
func TestCommands(t *testing.T) {
	loose := bounds{Steady: 15 * time.Second, PeerTimeout: 20 * time.Second}
	for _, c := range []struct {
		command, devices, only string
		d                      time.Duration
	}{
		{"restarts", "shm,tcp,auto", "", time.Second},
		{"slow", "shm,tcp,auto", "", time.Second},
		{"descriptors", "shm,tcp,auto", "", time.Second},
		{"aliases", "auto", "", time.Second},
		{"floods", "shm,tcp,auto", "", time.Second},
	} {
		for device := range strings.SplitSeq(c.devices, ",") {
			t.Run(c.command+"/"+device, func(t *testing.T) {
				good(t, plan{command: c.command, device: device, d: c.d, seed: 7, only: c.only, bounds: loose})
			})
		}
	}
}

// TestResets: connections between honest peers are reset, in the middle of what they carry. Nothing is
// lost, and in the end each reaches each other one.
func TestResets(t *testing.T) {
	needsNetwork(t)
	loose := bounds{Steady: 15 * time.Second, PeerTimeout: 20 * time.Second}
	t.Run("endpoints", func(t *testing.T) {
		r := good(t, plan{command: "resets", device: "tcp", d: 4 * time.Second, seed: 7, bounds: loose})
		require.NotZero(t, r.Kinds["reset"])
	})
	t.Run("processes", func(t *testing.T) {
		r := good(t, plan{device: tcpResets, d: 2 * time.Second, seed: 7, bounds: loose, flat: true})
		require.NotZero(t, r.Kinds["reset"])
		require.NotZero(t, r.Kills+r.Pauses)
		require.NotZero(t, r.Messages)
	})
}

// needsNetwork is for tests that have a network namespace of their own.
func needsNetwork(t *testing.T) {
	testenv.NeedAll(t, "a network namespace, and root")
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root alone may read and reset connections")
	}
	for _, program := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "no %s: %v", program, err)
		}
	}
	if out, err := exec.Command("unshare", "--net", "true").CombinedOutput(); err != nil {
		testenv.Missing(t, "no network namespaces: %v: %s", err, out)
	}
}

// good carries out a plan, of which nothing is wrong.
func good(t *testing.T, pl plan) row {
	t.Helper()
	r := conduct(t.Context(), pl, io.Discard)
	var table strings.Builder
	show(&table, []row{r})
	t.Log("\n" + table.String())
	require.Empty(t, r.Wrongs)
	require.NotZero(t, r.Ops+r.Connections)
	return r
}

// TestFlat is about what a process holds in the end of its time, and in the middle.
func TestFlat(t *testing.T) {
	grows := func(from, to sample) []string {
		m := &report{}
		for range 2 * fewSamples {
			m.Samples = append(m.Samples, from)
		}
		for range fewSamples {
			m.Samples = append(m.Samples, to)
		}
		r := row{}
		r.flat(m)
		return r.Wrongs
	}
	base := sample{100 << 20, 50, 80}
	require.Empty(t, grows(base, base))
	require.Empty(t, grows(base, sample{130 << 20, 60, 90}))
	require.Len(t, grows(base, sample{200 << 20, 50, 80}), 1)
	require.Len(t, grows(base, sample{200 << 20, 80, 200}), 3)
}

// TestPlans is about the command line.
func TestPlans(t *testing.T) {
	list, err := plans("floods", "tcp")
	require.NoError(t, err)
	require.Equal(t, []plan{{command: "floods", device: "tcp"}}, list)
	for _, name := range []string{processes, soak, "resets", "aliases", "floods", "restarts", "slow", "descriptors"} {
		list, err := plans(name, "")
		require.NoError(t, err)
		require.NotEmpty(t, list, name)
	}
	_, err = plans("nothing", "")
	require.ErrorIs(t, err, errUsage)
	_, err = plans("resets", "shm")
	require.ErrorIs(t, err, errUsage)
}
