package contest

import (
	"context"
	_ "embed" // the C program
	"slices"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/stream/flow"
)

//go:embed testdata/mpifan.c
var fanC []byte

// CompileFan makes the program of an implementation of MPI for streams of several senders to
// one receiver, as flow.Hub is. Count is of each sender.
func CompileFan(ctx context.Context, dir, name string, m *mpi.MPI) (func(context.Context, int, flow.Plan) (*flow.Result, error), error) {
	program, err := m.Compile(ctx, dir, name+"-fan", source(fanC))
	return func(ctx context.Context, senders int, p flow.Plan) (*flow.Result, error) {
		return Parse(ctx, &p, slices.Concat(m.Command(senders+1, program), arguments(&p)))
	}, err
}
