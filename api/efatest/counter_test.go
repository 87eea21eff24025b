package efatest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/model"
)

// stage is memory of one domain, the endpoints through which peers reach it, and the
// endpoints that do.
type stage struct {
	cells  *efa.MemoryRegion
	doors  []*efa.Endpoint
	actors []*efa.Endpoint
	to     [][]efa.Addr // by actor and door
}

// newStage opens both sides, with several shards each, on devices of open's.
func newStage(t *testing.T, open func() efa.Device, doors, actors int) *stage {
	side := func(n int) (dom *efa.Domain, av *efa.AddressVector, eps []*efa.Endpoint) {
		fab, err := efa.Open(efa.Config{Device: open()})
		require.NoError(t, err)
		dom, err = fab.OpenDomain(efa.DomainConfig{Shards: 3})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, dom.Close())
			require.NoError(t, fab.Close())
		})
		av = dom.NewAddressVector()
		for range n {
			ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
			require.NoError(t, err)
			require.NoError(t, ep.Enable(context.Background()))
			t.Cleanup(func() { require.NoError(t, ep.Close()) })
			eps = append(eps, ep)
		}
		return dom, av, eps
	}
	s := &stage{}
	var dom *efa.Domain
	var av *efa.AddressVector
	var err error
	dom, _, s.doors = side(doors)
	s.cells, err = dom.Alloc(4096, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.cells.Close()) })
	_, av, s.actors = side(actors)
	for range s.actors {
		var list []efa.Addr
		for _, d := range s.doors {
			to, err := av.Insert(d.Address())
			require.NoError(t, err)
			list = append(list, to)
		}
		s.to = append(s.to, list)
	}
	return s
}

// cell names the i-th counter.
func (s *stage) cell(i int) efa.Remote { return s.cells.Remote().Slice(uint64(i)*8, 8) }

// value is the present value; no operation may be using it.
func (s *stage) value(i int) uint64 { return binary.LittleEndian.Uint64(s.cells.Bytes()[i*8:]) }

// inWorld returns devices of a world in simulated time.
func inWorld(t *testing.T, w *efatest.World) func() efa.Device {
	return func() efa.Device {
		dev, err := w.Device(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
		require.NoError(t, err)
		return dev
	}
}

// TestCounter: eight endpoints add to one counter by way of three, a thousand times
// each and by every form that adds.
func TestCounter(t *testing.T) {
	const each = 1000
	w := newWorld(t, efatest.Config{Seed: 4})
	s := newStage(t, inWorld(t, w), 3, 8)
	seen := make(map[uint64]bool) // what was fetched
	fetches := 0
	for i, ep := range s.actors {
		w.Go(fmt.Sprintf("adder %d", i), func(ctx context.Context) error {
			for k := range each {
				cell := efa.NewCell[uint64](ep.Memory(s.to[i][k%3], s.cell(0)))
				switch k % 4 {
				case 0:
					if err := cell.Add(ctx, 1); err != nil {
						return err
					}
				case 1:
					if err := cell.Add(ctx, 1, efa.Inject); err != nil {
						return err
					}
				case 2:
					if err := cell.Add(ctx, 1, efa.Complete(efa.Delivered)); err != nil {
						return err
					}
				default:
					was, err := cell.FetchAdd(ctx, 1)
					if err != nil {
						return err
					}
					require.False(t, seen[was], "two found %d", was)
					seen[was] = true
					fetches++
				}
			}
			for _, to := range s.to[i] { // to peers that did not confirm
				if _, err := efa.NewCell[uint64](ep.Memory(to, s.cell(0))).Load(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, w.Run())
	require.Equal(t, uint64(len(s.actors)*each), s.value(0))
	require.Equal(t, len(s.actors)*each/4, fetches)
}

// TestLock: compare-and-swap makes a lock, which one endpoint has at a time. The
// memory that it guards is written with confirmation before the lock is released.
func TestLock(t *testing.T) {
	const each = 40
	w := newWorld(t, efatest.Config{Seed: 5})
	s := newStage(t, inWorld(t, w), 2, 6)
	inside := 0
	for i, ep := range s.actors {
		w.Go(fmt.Sprintf("locker %d", i), func(ctx context.Context) error {
			me, to := uint64(i+1), s.to[i]
			for range each {
				for owner := me; owner != 0; {
					var err error
					if owner, err = efa.NewCell[uint64](ep.Memory(to[0], s.cell(0))).CompareSwap(ctx, 0, me); err != nil {
						return err
					}
				}
				inside++
				require.Equal(t, 1, inside, "two have the lock")
				var b [8]byte
				if err := ep.Memory(to[1], s.cell(1)).Read(ctx, b[:]); err != nil {
					return err
				}
				binary.LittleEndian.PutUint64(b[:], binary.LittleEndian.Uint64(b[:])+1)
				if err := ep.Memory(to[1], s.cell(1)).Write(ctx, b[:], efa.Complete(efa.Delivered)); err != nil {
					return err
				}
				inside--
				owner, err := efa.NewCell[uint64](ep.Memory(to[0], s.cell(0))).CompareSwap(ctx, me, 0)
				if err != nil {
					return err
				}
				require.Equal(t, me, owner, "somebody else's lock")
			}
			return nil
		})
	}
	require.NoError(t, w.Run())
	require.Equal(t, uint64(len(s.actors)*each), s.value(1))
	require.Zero(t, s.value(0))
}

// TestHistory: in real time, with several shards and goroutines on both sides, the
// values that atomics fetched can be explained by one order.
func TestHistory(t *testing.T) {
	const each, cellCount = 60, 2
	fab, err := sim.New(sim.Config{Seed: 6})
	require.NoError(t, err)
	s := newStage(t, func() efa.Device {
		dev, err := fab.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		return dev
	}, 3, 6)
	var clock atomic.Int64
	now := func() int { return int(clock.Add(1)) }
	var mu sync.Mutex
	var wg sync.WaitGroup
	history := make([][]*happening, cellCount)
	for i, ep := range s.actors {
		wg.Go(func() {
			for k := range each {
				door, cell := (i+k)%len(s.doors), k/3%cellCount
				h := &happening{from: i, to: door, Step: model.Step{Bits: 64, Fetches: true}}
				h.Operand, h.Compare = uint64(1+(i*k)%3), uint64(k%4)
				at := efa.NewCell[uint64](ep.Memory(s.to[i][door], s.cell(cell)))
				h.call = now()
				var err error
				switch k % 4 {
				case 0:
					h.Op = amo.Sum
					h.Fetched, err = at.FetchAdd(t.Context(), h.Operand)
				case 1:
					h.Op = amo.CompareSwap
					h.Fetched, err = at.CompareSwap(t.Context(), h.Compare, h.Operand)
				case 2:
					h.Op = amo.Read
					h.Fetched, err = at.Load(t.Context())
				default:
					h.Op = amo.Write
					h.Fetched, err = at.Swap(t.Context(), h.Operand)
				}
				h.end = now()
				if err != nil {
					t.Errorf("actor %d: %v", i, err)
					return
				}
				mu.Lock()
				history[cell] = append(history[cell], h)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, list := range history {
		require.NoError(t, linear(list, 64, s.value(i)), "cell %d", i)
	}
}
