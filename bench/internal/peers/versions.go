package peers

import (
	"context"
	"os/exec"
	"regexp"

	"github.com/efactor/efactor/bench/internal/mpi"
)

// Versions names the systems that are installed.
func Versions(ctx context.Context) (list []string) {
	for _, m := range []*mpi.MPI{&mpi.MPICH, &mpi.OpenMPI} {
		if _, err := exec.LookPath(m.Launcher()); err == nil {
			list = append(list, m.Version(ctx))
		}
	}
	for _, tool := range [][]string{{"libfabric", "fi_info", "--version"}, {"UCX", "ucx_info", "-v"}} {
		out, err := exec.CommandContext(ctx, tool[1], tool[2:]...).Output()
		if v := number.Find(out); err == nil && v != nil {
			list = append(list, tool[0]+" "+string(v))
		}
	}
	return list
}

var number = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)
