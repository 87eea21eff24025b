package trail

import (
	"math/rand/v2"
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
		r.Put(Record{Span: 2 * i, Kind: 1})
		r.Put(Record{Span: 2*i + 1, Kind: 1})
		assert.Empty(t, drain(r), "not flushed yet")
		r.Flush()
		assert.Equal(t, []uint64{2 * i, 2*i + 1}, drain(r))
	}
	assert.Zero(t, r.Lost())
}

func TestRingDropsTheNewest(t *testing.T) {
	r := NewRing(4)
	for i := range uint64(7) {
		r.Put(Record{Span: i, Kind: 1})
	}
	r.Flush()
	assert.Equal(t, 4, r.Len())
	assert.Equal(t, []uint64{0, 1, 2, 3}, drain(r))
	assert.Equal(t, uint64(3), r.Lost())
	r.Put(Record{Span: 9, Kind: 1})
	assert.Equal(t, uint64(6), r.Flush())
	var got []Record
	r.Drain(func(rec *Record) { got = append(got, *rec) })
	assert.Equal(t, []Record{{Kind: Gap, A: 3}, {Span: 9, Kind: 1}}, got, "it goes on once there is room, and says what is missing")
}

// TestRingTellsOfEveryGap: records that arrive and gaps add up to the records that
// were put.
func TestRingTellsOfEveryGap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := NewRing(4)
	put, got := uint64(0), uint64(0)
	read := func(rec *Record) {
		if rec.Kind == Gap {
			got += rec.A
			return
		}
		assert.Equal(t, got, rec.Span, "in its place")
		got++
	}
	for range 10_000 {
		for range rnd.IntN(8) {
			r.Put(Record{Span: put, Kind: 1})
			put++
		}
		r.Flush()
		if rnd.IntN(3) > 0 {
			r.Drain(read)
		}
	}
	r.Drain(read)
	assert.Equal(t, put, got+r.lost.Load()-r.told)
	assert.Positive(t, r.Lost())
}

func TestRingAcrossGoroutines(t *testing.T) {
	const n = 100_000
	r := NewRing(64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(n) {
			r.Put(Record{Span: i, A: ^i, Kind: 1})
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
			if rec.Kind == Gap {
				return
			}
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
		r.Put(Record{At: clock.Time(1), Kind: 1})
		r.Flush()
	}))
}

func BenchmarkPut(b *testing.B) {
	r := NewRing(1 << 12)
	for b.Loop() {
		r.Put(Record{At: 1, Span: 2, A: 3, Kind: 1})
		if r.next&1023 == 0 {
			r.Flush()
			r.Drain(func(*Record) {})
		}
	}
	b.ReportMetric(float64(r.Lost()), "lost")
}
