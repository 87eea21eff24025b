package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
	"github.com/efactor/efactor/internal/testenv"
)

// TestRanksEnd: no rank of MPI is left when a run is over before its time.
func TestRanksEnd(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	for _, m := range []*mpi.MPI{&mpi.MPICH, &mpi.OpenMPI} {
		program, err := m.Compile(t.Context(), t.TempDir(), "pingpong", mpi.PingPong)
		if errors.Is(err, versus.ErrAbsent) {
			testenv.Missing(t, "%v", err)
		}
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := mpiPingPong(m.Command(2, program))(ctx, 8, 1<<40)
			ended <- err
		}()
		require.Eventually(t, func() bool { return running(program) == 2 }, time.Minute, 10*time.Millisecond, m.Name)
		cancel()
		require.Error(t, <-ended)
		require.Eventually(t, func() bool { return running(program) == 0 }, time.Minute, 10*time.Millisecond, m.Name)
	}
}

// TestFanEnds: nor is a sender of the programs that fork, and with libfabric no file, when a run is over before
// its time.
func TestFanEnds(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	for name, find := range map[string]func(context.Context, string) ([]Peer, error){"libfabric": libfabricStreams, "ucx": ucxStreams} {
		dir := t.TempDir()
		found, err := find(t.Context(), dir)
		if errors.Is(err, versus.ErrAbsent) {
			testenv.Missing(t, "%v", err)
		}
		require.NoError(t, err)
		program := filepath.Join(dir, name+"-fan")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			plan := flow.Plan{Size: 8, Window: 8, Batch: 8, Buffers: 8, Warm: 8, Count: 1 << 40}
			_, err := found[0].Fan(ctx, 3, plan)
			ended <- err
		}()
		require.Eventually(t, func() bool { return running(program) == 4 }, time.Minute, 10*time.Millisecond, name)
		ids := processes(program)
		if name == "libfabric" {
			require.Eventually(t, func() bool { return len(files(ids)) == 4 }, time.Minute, 10*time.Millisecond)
		}
		cancel()
		require.Error(t, <-ended)
		require.Eventually(t, func() bool { return running(program) == 0 }, time.Minute, 10*time.Millisecond, name)
		assert.Empty(t, files(ids), name)
	}
}

// running is how many processes have the program.
func running(program string) int { return len(processes(program)) }

func processes(program string) (ids []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if at, err := os.Readlink(l); err == nil && at == program {
			ids = append(ids, filepath.Base(filepath.Dir(l)))
		}
	}
	return ids
}

// files are those that libfabric's shm provider has for processes.
func files(ids []string) (list []string) {
	for _, id := range ids {
		of, _ := filepath.Glob("/dev/shm/" + id + ":*")
		list = append(list, of...)
	}
	return list
}
