package ring_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/runtime/ring"
)

// TestMPSCModel compares the queue with a slice.
func TestMPSCModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "size")
		q := ring.NewMPSC[*int](n)
		var model []*int
		room := 2
		for room < n {
			room *= 2
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				v := new(int)
				ok := q.Push(&v, nil)
				require.Equal(t, len(model) < room, ok)
				if ok {
					model = append(model, v)
				}
			},
			"take": func(t *rapid.T) {
				p := q.Peek()
				require.Equal(t, len(model) > 0, p != nil)
				if p != nil {
					require.Same(t, model[0], *p)
					model = model[1:]
					*p = nil // a dropped cell is to keep nothing alive
					q.Drop()
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model) == 0, q.Peek() == nil)
				require.Equal(t, len(model) == 0, q.Idle())
			},
		})
	})
}

// TestSPSCModel compares the queue with a slice: what is put is seen when it was
// published.
func TestSPSCModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "size")
		q := ring.NewSPSC[int](n)
		room := 2
		for room < n {
			room *= 2
		}
		var put, published []int
		next := 1
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c := q.Put()
				require.Equal(t, len(put)+len(published) < room, c != nil)
				if c != nil {
					require.Zero(t, *c, "a taken cell keeps nothing alive")
					*c = next
					put = append(put, next)
					next++
				}
			},
			"publish": func(t *rapid.T) {
				require.Equal(t, len(put) > 0, q.Publish())
				published, put = append(published, put...), nil
			},
			"take": func(t *rapid.T) {
				dst := make([]int, rapid.IntRange(0, 4).Draw(t, "n"))
				k := q.Take(dst)
				// The consumer may not look further than it has to, but finds
				// something if there is anything.
				require.LessOrEqual(t, k, min(len(dst), len(published)))
				if len(dst) > 0 && len(published) > 0 {
					require.Positive(t, k)
				}
				require.Equal(t, append([]int{}, published[:k]...), append([]int{}, dst[:k]...))
				published = published[k:]
			},
			"": func(t *rapid.T) { require.Equal(t, len(published), q.Len()) },
		})
	})
}

// TestMPSCConcurrent: nothing is lost, doubled or reordered between real
// goroutines.
func TestMPSCConcurrent(t *testing.T) {
	const producers, each = 4, 20000
	q := ring.NewMPSC[[2]int](64)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				for v := [2]int{p, i}; !q.Push(&v, nil); {
					runtime.Gosched()
				}
			}
		})
	}
	var next [producers]int
	for n := 0; n < producers*each; {
		v := q.Peek()
		if v == nil {
			runtime.Gosched()
			continue
		}
		require.Equal(t, next[v[0]], v[1])
		next[v[0]]++
		q.Drop()
		n++
	}
	wg.Wait()
	require.Nil(t, q.Peek())
}

// TestSPSCConcurrent is the same for one producer.
func TestSPSCConcurrent(t *testing.T) {
	const n = 100000
	q := ring.NewSPSC[int](16)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			c := q.Put()
			for c == nil {
				q.Publish()
				runtime.Gosched()
				c = q.Put()
			}
			*c = i
			if i%3 == 0 {
				q.Publish()
			}
		}
		q.Publish()
	})
	var dst [5]int
	for want := 0; want < n; {
		k := q.Take(dst[:])
		for _, v := range dst[:k] {
			require.Equal(t, want, v)
			want++
		}
		if k == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
}

func BenchmarkMPSC(b *testing.B) {
	q := ring.NewMPSC[[14]uint64](64)
	var v [14]uint64
	b.ReportAllocs()
	for b.Loop() {
		q.Push(&v, nil)
		q.Peek()
		q.Drop()
	}
}

func BenchmarkSPSC(b *testing.B) {
	q := ring.NewSPSC[[14]uint64](64)
	var dst [1][14]uint64
	b.ReportAllocs()
	for b.Loop() {
		*q.Put() = dst[0]
		q.Publish()
		q.Take(dst[:])
	}
}
