package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
)

// TestRanksEnd: no rank of MPI is left when a run is over before its time.
func TestRanksEnd(t *testing.T) {
	for _, m := range []*mpi.MPI{&mpi.MPICH, &mpi.OpenMPI} {
		program, err := m.Compile(t.Context(), t.TempDir(), "pingpong", mpi.PingPong)
		if errors.Is(err, versus.ErrAbsent) && os.Getenv("CI") != "true" { // there they are installed
			t.Skip(err)
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

// running is how many processes have the program.
func running(program string) (n int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if at, err := os.Readlink(l); err == nil && at == program {
			n++
		}
	}
	return n
}
