package job

import (
	"bytes"
	"context"
	"errors"

	"github.com/efactor/efactor/runtime/clock"
)

var errCopy = errors.New("a copy is not what was copied")

// copies times single copies by this process, between as many buffers as a stream has on
// each side (Depth), used in turn.
func (j *Job) copies(ctx context.Context) (*Result, error) {
	n := max(j.Depth, 1)
	out, in := make([][]byte, n), make([][]byte, n)
	for i := range n {
		out[i], in[i] = bytes.Repeat([]byte{byte(i + 1)}, j.Size), make([]byte, j.Size)
	}
	began := clock.System.Now()
	for i := range j.Warm + j.Count {
		if i == j.Warm {
			began = clock.System.Now()
		}
		copy(in[i%n], out[i%n])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	took := clock.System.Now().Sub(began)
	for i := range min(n, j.Warm+j.Count) {
		if !bytes.Equal(in[i], out[i]) {
			return nil, errCopy
		}
	}
	return &Result{Nanos: float64(took) / float64(max(j.Count, 1))}, nil
}
