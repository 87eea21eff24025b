package atomics

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

const workers = 8

// together runs f in several goroutines, which begin at once.
func together(f func(worker int)) {
	var (
		wg    sync.WaitGroup
		ready atomic.Int32
	)
	for w := range workers {
		wg.Go(func() {
			for ready.Add(1); ready.Load() < workers; {
				runtime.Gosched()
			}
			f(w)
		})
	}
	wg.Wait()
}

// shared are elements that are updated with and without the locks, and how local Go
// code adds one to them.
var shared = []struct {
	name  string
	typ   wire.Datatype
	shift int
	local func(p []byte)
}{
	{"uint64", wire.DatatypeUint64, 0, func(p []byte) { atomic.AddUint64((*uint64)(unsafe.Pointer(&p[0])), 1) }},
	{"uint32", wire.DatatypeUint32, 4, func(p []byte) { atomic.AddUint32((*uint32)(unsafe.Pointer(&p[0])), 1) }},
	{"float", wire.DatatypeFloat, 4, func(p []byte) {
		word := (*uint32)(unsafe.Pointer(&p[0]))
		for old, added := uint32(0), false; !added; {
			old = atomic.LoadUint32(word)
			added = atomic.CompareAndSwapUint32(word, old, math.Float32bits(math.Float32frombits(old)+1))
		}
	}},
	{"double", wire.DatatypeDouble, 8, func(p []byte) {
		word := (*uint64)(unsafe.Pointer(&p[0]))
		for old, added := uint64(0), false; !added; {
			old = atomic.LoadUint64(word)
			added = atomic.CompareAndSwapUint64(word, old, math.Float64bits(math.Float64frombits(old)+1))
		}
	}},
	{"locked uint8", wire.DatatypeUint8, 3, addLocked},
	{"locked uint16", wire.DatatypeUint16, 2, addLocked},
	{"locked uint32", wire.DatatypeUint32, 2, addLocked},
	{"locked uint64", wire.DatatypeUint64, 4, addLocked},
	{"locked uint64 in two lines", wire.DatatypeUint64, 63, addLocked},
}

// addLocked adds one to the first byte of an integer, and carries.
func addLocked(p []byte) {
	l := lockOf(p)
	l.Lock()
	defer l.Unlock()
	for i := range p {
		if p[i]++; p[i] != 0 {
			return
		}
	}
}

// TestShared: updates of one element all count, those of Apply and those that others
// make in the way that the package says.
func TestShared(t *testing.T) {
	const n = 10000
	for _, c := range shared {
		t.Run(c.name, func(t *testing.T) {
			size := c.typ.Size()
			p, one := memory(c.shift + size)[c.shift:], make([]byte, size)
			putOne(c.typ, one)
			together(func(w int) {
				was := make([]byte, size)
				for range n {
					if w%2 == 0 {
						c.local(p)
					} else if err := Apply(wire.OpSum, c.typ, Fetch, p, one, nil, was); err != nil {
						t.Error(err)
					}
				}
			})
			all := uint64(1) << (8 * min(size, 7))
			require.Equal(t, workers*n%all, count(c.typ, p)%all)
		})
	}
}

// TestRun: a run is the elements that begin in one line, and no other.
func TestRun(t *testing.T) {
	all := memory(512)
	for _, size := range []int{1, 2, 4, 8, 16, 32} {
		for shift := range lineSize {
			n := run(all[shift:shift+6*size], size)
			elems := 0
			for i := shift; i < lineSize && elems < 6; i += size {
				require.Same(t, lockOf(all[shift:]), lockOf(all[i:]))
				elems++
			}
			require.Equal(t, elems*size, n, "size %d, shift %d", size, shift)
		}
	}
	require.NotSame(t, lockOf(all), lockOf(all[lineSize:]))
}

// TestWindows: goroutines add to windows of one array that begin and end in
// different elements. Each element counts what covered it, whatever its type and
// wherever the array begins.
func TestWindows(t *testing.T) {
	const rounds = 60
	for _, typ := range []wire.Datatype{
		wire.DatatypeUint8, wire.DatatypeUint16, wire.DatatypeUint32, wire.DatatypeInt64,
		wire.DatatypeDouble, wire.DatatypeFloatComplex, wire.DatatypeDoubleComplex,
	} {
		for _, shift := range []int{0, 1, 4} {
			elems := 600
			size := typ.Size()
			p := memory(elems*size + shift)[shift:]
			one := make([]byte, len(p))
			for i := range elems {
				putOne(typ, one[i*size:])
			}
			var covered [600]atomic.Uint32
			together(func(w int) {
				for r := range rounds {
					from, to := (w*13+r*7)%elems, elems-(w*5+r*3)%100
					if from >= to {
						continue
					}
					for i := from; i < to; i++ {
						covered[i].Add(1)
					}
					window := p[from*size : to*size]
					if err := Apply(wire.OpSum, typ, Write, window, one, nil, nil); err != nil {
						t.Error(err)
					}
				}
			})
			for i := range elems {
				require.Equal(t, uint64(covered[i].Load())%256, count(typ, p[i*size:])%256, "%v element %d, shift %d", typ, i, shift)
			}
		}
	}
}

func putOne(typ wire.Datatype, p []byte) {
	switch typ {
	case wire.DatatypeFloat:
		le.PutUint32(p, math.Float32bits(1))
	case wire.DatatypeDouble:
		le.PutUint64(p, math.Float64bits(1))
	case wire.DatatypeFloatComplex:
		le.PutUint32(p, math.Float32bits(1))
		le.PutUint32(p[4:], math.Float32bits(1))
	case wire.DatatypeDoubleComplex:
		le.PutUint64(p, math.Float64bits(1))
		le.PutUint64(p[8:], math.Float64bits(1))
	default:
		p[0] = 1
	}
}

// count reads an element of memory. Both parts of a complex number count alike.
func count(typ wire.Datatype, p []byte) uint64 {
	ne := binary.NativeEndian
	switch typ {
	case wire.DatatypeUint8:
		return uint64(p[0])
	case wire.DatatypeUint16:
		return uint64(ne.Uint16(p))
	case wire.DatatypeUint32:
		return uint64(ne.Uint32(p))
	case wire.DatatypeFloat:
		return uint64(math.Float32frombits(ne.Uint32(p)))
	case wire.DatatypeDouble:
		return uint64(math.Float64frombits(ne.Uint64(p)))
	case wire.DatatypeFloatComplex:
		re, im := math.Float32frombits(ne.Uint32(p)), math.Float32frombits(ne.Uint32(p[4:]))
		return uint64((re + im) / 2)
	case wire.DatatypeDoubleComplex:
		re, im := math.Float64frombits(ne.Uint64(p)), math.Float64frombits(ne.Uint64(p[8:]))
		return uint64((re + im) / 2)
	default:
		return ne.Uint64(p)
	}
}

// TestLockOfCSwap: a lock that the sides build on CSWAP excludes, and a counter that
// they fetch gives every number to one of them. The words lie at odd addresses too.
func TestLockOfCSwap(t *testing.T) {
	for _, shift := range []int{0, 1, 60} {
		p := memory(shift + 12)[shift:]
		mutex, ticket := p[:4], p[4:12]
		free, taken, one := le.AppendUint32(nil, 0), le.AppendUint32(nil, 1), le.AppendUint64(nil, 1)
		inside, seen := 0, make([]bool, workers*200)
		together(func(int) {
			was, mine := make([]byte, 4), make([]byte, 8)
			for range 200 {
				for {
					err := Apply(wire.OpCSwap, wire.DatatypeUint32, Compare, mutex, taken, free, was)
					if err != nil {
						t.Error(err)
						return
					}
					if le.Uint32(was) == 0 {
						break
					}
				}
				inside++ // not atomic: the lock alone protects it
				if err := Apply(wire.OpWrite, wire.DatatypeUint32, Write, mutex, free, nil, nil); err != nil {
					t.Error(err)
				}
				if err := Apply(wire.OpSum, wire.DatatypeUint64, Fetch, ticket, one, nil, mine); err != nil {
					t.Error(err)
				}
				seen[le.Uint64(mine)] = true
			}
		})
		require.Equal(t, workers*200, inside)
		require.NotContains(t, seen, false)
	}
}
