package shm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

func goodRegion(size int) regionHeader {
	return regionHeader{
		magic: regionMagic, version: regionVersion, key: 5, dom: 6, addr: 1 << 40, size: uint64(size),
		access: uint32(device.RemoteRead),
	}
}

func TestRegionHeader(t *testing.T) {
	for _, size := range []int{1, pageBytes - 1, pageBytes, pageBytes + 1, 10 * pageBytes} {
		h := goodRegion(size)
		file := int64(regionBytes(size))
		require.Zero(t, file%int64(pageBytes))
		require.GreaterOrEqual(t, file, int64(pageBytes+size))
		require.NoError(t, h.check(5, file))
		for name, spoil := range map[string]func(h *regionHeader){
			"magic":    func(h *regionHeader) { h.magic++ },
			"version":  func(h *regionHeader) { h.version++ },
			"key":      func(h *regionHeader) { h.key++ },
			"empty":    func(h *regionHeader) { h.size = 0 },
			"smaller":  func(h *regionHeader) { h.size += uint64(pageBytes) },
			"larger":   func(h *regionHeader) { h.size = uint64(size + 2*pageBytes) },
			"negative": func(h *regionHeader) { h.size = math.MaxUint64 },
			"wrapping": func(h *regionHeader) { h.size += 1 << 63 },
			"beyond":   func(h *regionHeader) { h.addr = math.MaxUint64 - uint64(size) + 1 },
		} {
			bad := h
			spoil(&bad)
			require.ErrorIs(t, bad.check(5, file), errNoRegion, name)
		}
		for _, file := range []int64{0, 1, file - 1, file + 1, file - int64(pageBytes), file + int64(pageBytes), -1} {
			require.ErrorIs(t, h.check(5, file), errNoRegion)
		}
	}
}

// A header that passes the check describes nothing outside the file.
func TestRegionRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	interesting := func(h *regionHeader) uint64 {
		edge := []uint64{0, h.addr, h.addr + h.size, math.MaxUint64, h.addr - h.size}[rng.IntN(5)]
		return edge + uint64(rng.IntN(5)) - 2
	}
	passed, tries := 0, 200_000
	if testenv.Short() {
		tries = 50_000
	}
	for range tries {
		h := goodRegion(1 + rng.IntN(100))
		if rng.IntN(2) == 0 {
			h.addr = math.MaxUint64 - h.size - uint64(rng.IntN(3)) + 1
		}
		if h.check(5, int64(regionBytes(int(h.size)))) != nil {
			require.Greater(t, h.addr, math.MaxUint64-h.size)
			continue
		}
		addr, n := interesting(&h), rng.IntN(102)
		off, ok := h.offset(addr, n)
		inside := addr >= h.addr && addr <= h.addr+h.size && uint64(n) <= h.addr+h.size-addr
		require.Equal(t, inside, ok, "%d bytes at %#x of %+v", n, addr, h)
		if ok {
			passed++
			require.Equal(t, addr-h.addr, uint64(off))
			require.LessOrEqual(t, off+n, int(h.size))
		}
	}
	require.Greater(t, passed, 1000)
	h := goodRegion(10)
	_, ok := h.offset(h.addr, math.MaxInt)
	require.False(t, ok)
}

// TestLease runs every interleaving of an owner that closes with two copiers, each
// of which may be killed after any step. If the owner sees no lease then the data
// is not touched afterwards, and a copier that reports success has read it before
// the memory was released.
func TestLease(t *testing.T) {
	mem := make([]uint64, 64)
	page := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), 512)
	var abandoned, believed, waited int
	orders := 0
	leaseOrders([]int{3, 5, 5}, nil, func(order []int) {
		if orders++; testenv.Short() && orders%5 > 0 {
			return
		}
		for kill := range len(order) + 1 { // killed after this many steps, the copier that made the last of them
			clear(mem)
			w := leaseWorld{c: regionControlOf(page)}
			dead := -1
			for i, who := range order {
				if kill > 0 && i == kill && order[i-1] != 0 {
					dead = order[i-1]
				}
				if who == dead {
					continue
				}
				if err := w.step(who); err != nil {
					t.Fatalf("%v: order %v, kill %d", err, order, kill)
				}
			}
			if dead < 0 && w.c.leases.Load() != 0 {
				t.Fatalf("%d leases are left: order %v", w.c.leases.Load(), order)
			}
			abandoned += w.abandoned
			believed += w.believed
			waited += w.freed
		}
	})
	require.NotZero(t, abandoned)
	require.NotZero(t, believed)
	require.NotZero(t, waited)
}

// leaseOrders calls f with every order of this many steps of each.
func leaseOrders(left, order []int, f func([]int)) {
	done := true
	for who := range left {
		if left[who] == 0 {
			continue
		}
		done = false
		next := slices.Clone(left)
		next[who]--
		leaseOrders(next, append(slices.Clip(order), who), f)
	}
	if done {
		f(order)
	}
}

type leaseWorld struct {
	c    *regionControl
	at   [3]int
	out  [3]bool // the copier has found the region closed
	gone bool    // the owner has seen no lease, and given the memory back

	abandoned, believed, freed int
}

func (w *leaseWorld) step(who int) error {
	at := w.at[who]
	w.at[who]++
	if who == 0 {
		switch at {
		case 0:
			w.c.state.Store(closed)
		case 1:
			w.gone = w.c.leases.Load() == 0
		case 2:
			if w.gone {
				w.freed++
			} else {
				w.abandoned++
			}
		}
		return nil
	}
	switch {
	case at == 0:
		w.c.addLease()
	case at == 1:
		w.out[who] = !w.c.open()
	case at == 2 && !w.out[who] && w.gone:
		return fmt.Errorf("copier %d touches what was given back", who)
	case at == 3 && !w.out[who] && w.c.open():
		if w.gone {
			return fmt.Errorf("copier %d believes what it has read", who)
		}
		w.believed++
	case at == 4:
		w.c.dropLease()
	}
	return nil
}
