//go:build linux

package openmpi

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

// steps are what ranks prints.
var steps = []string{"hello", "pingpong", "unexpected", "allreduce", "bcast", "alltoall", "put", "get", "atomics"}

func (r result) good(t *testing.T) {
	t.Helper()
	require.NoError(t, r.err, "%s%s", r.out, r.log)
	require.Equal(t, steps, strings.Fields(r.out), "%s", r.log)
}

// TestRanks: messages of all sizes, collectives and one-sided operations, all ranks on one host.
func TestRanks(t *testing.T) {
	need(t)
	for _, c := range []struct {
		name  string
		n     int
		osc   []string
		flags []string
		env   string
		reads bool
	}{
		{"two ranks", 2, pt2pt, []string{"-rdma-read=false"}, "FI_EFA_USE_DEVICE_RDMA=0", false},
		{"packets out of order", 3, pt2pt, []string{"-shuffle", "8", "-seed", "3"}, "FI_EFA_USE_DEVICE_RDMA=0", false},
		{"RDMA read", 4, rdma, nil, "FI_EFA_USE_DEVICE_RDMA=1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testenv.Short() && c.n < 4 {
				t.Skip("one will do")
			}
			line := append(mpirun(c.n, c.osc...), compiled(t), c.osc[2])
			r := run(t, emulated(t, newFabric(t), c.flags, line), []string{c.env})
			r.good(t)
			require.Greater(t, r.count(t, "packets sent"), 500, "%s", r.log)
			require.Equal(t, c.reads, r.count(t, "RDMA reads sent") > 0, "%s", r.log)
		})
	}
}

// TestHosts: each rank has an emulator and a host of its own, so there is nothing of
// libfabric's to turn off.
func TestHosts(t *testing.T) {
	need(t)
	line := emulated(t, newFabric(t), []string{"-host", "h$OMPI_COMM_WORLD_RANK"}, []string{compiled(t), "pt2pt"})
	r := run(t, append(mpirun(3, pt2pt...), "sh", "-c", "exec "+strings.Join(line, " ")), []string{"FI_EFA_ENABLE_SHM_TRANSFER=1"})
	r.good(t)
	require.Greater(t, r.count(t, "packets sent"), 500, "%s", r.log)
}

// TestDeath: when a rank dies the job ends, and nothing of it is left on the fabric.
func TestDeath(t *testing.T) {
	need(t)
	r := run(t, emulated(t, newFabric(t), nil, append(mpirun(3, pt2pt...), compiled(t), "dies")), nil)
	require.Error(t, r.err)
	require.NotContains(t, r.out, "not to be seen")
	require.Contains(t, r.log, "exited on signal 9", "%s", r.log)
}

// TestNetPIPE: a benchmark that others wrote checks what it gets, in sizes of its own.
func TestNetPIPE(t *testing.T) {
	need(t)
	tool, err := exec.LookPath("NPopenmpi")
	if err != nil {
		testenv.Missing(t, "no NPopenmpi: install netpipe-openmpi")
	}
	line := append(mpirun(2, pt2pt...), tool, "-i", "-n", "10", "-u", "300000", "-o", filepath.Join(t.TempDir(), "np.out"))
	r := run(t, emulated(t, newFabric(t), nil, line), nil)
	require.NoError(t, r.err, "%s%s", r.out, r.log)
	require.Contains(t, r.log, " 262145 bytes     10 times", "%s", r.log)
	passed := strings.Count(r.out+r.log, "Integrity check passed")
	require.Equal(t, strings.Count(r.log, " times -->"), passed, "%s%s", r.out, r.log)
	require.Greater(t, r.count(t, "packets sent"), 500, "%s", r.log)
}
