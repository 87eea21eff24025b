package flow

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

func plan() Plan {
	return Plan{Size: 8, Warm: 64, Count: 128, Window: 8, Batch: 32, Buffers: 8}
}

func TestPlan(t *testing.T) {
	p := plan()
	require.NoError(t, p.Check())
	for name, spoil := range map[string]func(*Plan){
		"size":    func(p *Plan) { p.Size = -1 },
		"window":  func(p *Plan) { p.Window = 0 },
		"batch":   func(p *Plan) { p.Batch = 36 },
		"buffers": func(p *Plan) { p.Buffers = 9 },
		"warm":    func(p *Plan) { p.Warm = 0 },
		"count":   func(p *Plan) { p.Count = 130 },
	} {
		q := plan()
		spoil(&q)
		assert.ErrorIs(t, q.Check(), errPlan, name)
	}
	p.Last(2*time.Second, 1000)
	assert.Equal(t, 2016, p.Count) // whole batches
	assert.Equal(t, 192, p.Warm)
	p.Size = 1 << 30
	p.Pilot()
	assert.Equal(t, 32, p.Count)
	assert.Equal(t, 32, p.Warm)
}

func TestResult(t *testing.T) {
	p := plan()
	r := Result{Count: 128, Nanos: []int64{1000}}
	require.NoError(t, r.Check(&p))
	assert.InDelta(t, 128e6, r.Rate(), 1)
	p.Both = true
	require.Error(t, r.Check(&p), "one way only")
	r.Nanos = append(r.Nanos, 2000)
	require.NoError(t, r.Check(&p))
	assert.InDelta(t, 128e6+64e6, r.Rate(), 1)
	r.Wrong = 1
	require.ErrorContains(t, r.Check(&p), "1 receive buffers do not hold")
}

// TestRun: both sides get to the end, one way and both ways.
func TestRun(t *testing.T) {
	for _, both := range []bool{false, true} {
		sides, err := OpenSim(t.Context(), efa.ProgressAuto)
		require.NoError(t, err)
		p := plan()
		p.Size, p.Alloc, p.Both = 10_000, true, both
		var other *Result
		done := make(chan error, 1)
		go func() {
			var err error
			other, err = sides[1].Run(t.Context(), p)
			done <- err
		}()
		res, err := sides[0].Run(t.Context(), p)
		require.NoError(t, errors.Join(err, <-done))
		require.NoError(t, res.Check(&p))
		assert.Zero(t, other.Wrong)
		require.NoError(t, errors.Join(sides[0].Close(), sides[1].Close()))
	}
}

func TestWrong(t *testing.T) {
	right, bad := make([]byte, 100), make([]byte, 100)
	fill(right)
	fill(bad)
	bad[99]++
	r := &run{Plan: Plan{Size: 100}, Side: new(Side), recv: true}
	assert.Zero(t, r.result([][]byte{right, right}).Wrong)
	assert.Equal(t, 1, r.result([][]byte{right, bad}).Wrong)
}
