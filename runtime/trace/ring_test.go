package trace

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

func drain(r *Ring) (spans []uint64) {
	r.Drain(func(rec *Record) { spans = append(spans, rec.Span) })
	return spans
}

func TestRingKeepsOrder(t *testing.T) {
	r := NewRing(3)
	assert.Len(t, r.cells, 4)
	for i := range uint64(10) {
		r.Put(Record{Span: 2 * i})
		r.Put(Record{Span: 2*i + 1})
		assert.Empty(t, drain(r), "not flushed yet")
		r.Flush()
		assert.Equal(t, []uint64{2 * i, 2*i + 1}, drain(r))
	}
	assert.Zero(t, r.Lost())
}

func TestRingDropsTheNewest(t *testing.T) {
	r := NewRing(4)
	for i := range uint64(7) {
		r.Put(Record{Span: i})
	}
	r.Flush()
	assert.Equal(t, 1.0, r.Full())
	assert.Equal(t, []uint64{0, 1, 2, 3}, drain(r))
	assert.Equal(t, uint64(3), r.Lost())
	r.Put(Record{Span: 9})
	r.Flush()
	assert.Equal(t, []uint64{9}, drain(r), "it goes on once there is room")
}

func TestRingAcrossGoroutines(t *testing.T) {
	const n = 100_000
	r := NewRing(64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(n) {
			r.Put(Record{Span: i, A: ^i})
			if i%7 == 0 {
				r.Flush()
			}
		}
		r.Flush()
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var got, last uint64
	read := func() {
		r.Drain(func(rec *Record) {
			require.Equal(t, ^rec.Span, rec.A, "torn")
			if got > 0 {
				require.Greater(t, rec.Span, last)
			}
			got, last = got+1, rec.Span
		})
	}
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		read()
	}
	assert.Equal(t, uint64(n), got+r.Lost())
}

func TestPutAllocatesNothing(t *testing.T) {
	r := NewRing(1 << 12)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		r.Put(Record{At: clock.Time(1)})
		r.Flush()
	}))
}

func BenchmarkPut(b *testing.B) {
	r := NewRing(1 << 12)
	for b.Loop() {
		r.Put(Record{At: 1, Span: 2, A: 3})
		if r.next&1023 == 0 {
			r.Flush()
			r.Drain(func(*Record) {})
		}
	}
	b.ReportMetric(float64(r.Lost()), "lost")
}
