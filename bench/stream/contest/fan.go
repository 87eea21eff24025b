package contest

import (
	"context"
	_ "embed" // the C programs
	"slices"
	"strconv"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/stream/flow"
)

var (
	//go:embed testdata/fan.h
	fans []byte
	//go:embed testdata/fabricfan.c
	fabricFanC []byte
	//go:embed testdata/ucxfan.c
	ucxFanC []byte
	//go:embed testdata/mpifan.c
	mpiFanC []byte
)

// Fan has so many senders do a plan with one receiver, as flow.Hub is; Count is of each sender.
type Fan func(ctx context.Context, senders int, p flow.Plan) (*flow.Result, error)

// CompileFan makes the program of a peer for streams of several senders to one receiver, over shared memory. The error is
// versus.ErrAbsent if the peer is not installed. The options are UCX's variables.
func CompileFan(ctx context.Context, dir, peer string, options ...string) (Fan, error) {
	name := peer + "-fan"
	switch peer {
	case Libfabric:
		command, err := compileLibfabric(ctx, dir, name, source(forks, fans, provider, fabricFanC))
		return forked(command), err
	case UCX:
		command, err := compileUCX(ctx, dir, name, source(forks, fans, worker, ucxFanC), options)
		return forked(command), err
	case OpenMPI:
		return launched(ctx, dir, name, &mpi.OpenMPI)
	default:
		return launched(ctx, dir, name, &mpi.MPICH)
	}
}

// forked is a program that makes the processes itself, as many as its first argument says.
func forked(command []string) Fan {
	return func(ctx context.Context, senders int, p flow.Plan) (*flow.Result, error) {
		return Parse(ctx, &p, slices.Concat(command, []string{strconv.Itoa(senders)}, arguments(&p)))
	}
}

// launched is one that a launcher of MPI starts.
func launched(ctx context.Context, dir, name string, m *mpi.MPI) (Fan, error) {
	program, err := m.Compile(ctx, dir, name, source(mpiFanC))
	return func(ctx context.Context, senders int, p flow.Plan) (*flow.Result, error) {
		return Parse(ctx, &p, slices.Concat(m.Command(senders+1, program), arguments(&p)))
	}, err
}
