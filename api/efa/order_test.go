package efa_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestFenceAfterWrites: the receiver of a fenced message sees all writes before it, of any
// size, on every kind of device, with and without a confirmation of each.
func TestFenceAfterWrites(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
			notify(t, a, b, level, efa.Fence)
		}
	})
}

// TestSendAfterWrite: the same of messages without a fence, by an order of the endpoint.
func TestSendAfterWrite(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Order: efa.SendAfterWrite}, func(t *testing.T, a, b *side) {
		notify(t, a, b, efa.Transmitted)
	})
}

// notify has a write to b's memory in many parts, and tell it; b looks then.
func notify(t *testing.T, a, b *side, level efa.Level, opts ...efa.OpOption) {
	const parts, size = 50, 3000
	m, ctx := alloc(t, b, parts*size+200_000, remote), testContext(t)
	for round := range less(8) {
		want := bytes.Repeat([]byte{byte(round + 1)}, len(m.Bytes()))
		var ops []*efa.Op
		for i := range parts {
			at, n := i*size, size
			if i == parts-1 {
				n += 200_000
			}
			ops = append(ops, start(t, a, &efa.WriteReq{
				To: a.peer, At: m.Remote().Slice(uint64(at), uint64(n)), Buf: want[at : at+n], Level: level,
			}))
		}
		got := make(chan error, 1)
		go func() {
			_, err := b.ep.RecvTag(ctx, efa.Match{Tag: 5}, nil)
			got <- err
		}()
		require.NoError(t, a.ep.SendTag(ctx, a.peer, 5, nil, opts...))
		require.NoError(t, <-got)
		require.True(t, bytes.Equal(want, m.Bytes()), "round %d: the message came before the bytes", round)
		for _, op := range ops {
			done(t, op)
		}
	}
}

// TestFenceShuffled: on a network that keeps no order a fenced write, read or atomic of each
// kind follows what it is to follow.
func TestFenceShuffled(t *testing.T) {
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{Seed: 11})
			mk := func() *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				dom := domainOn(t, d, efa.DomainConfig{})
				q := newQueue(t, dom, 0)
				return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
			}
			a, b := mk(), mk()
			introduce(t, a, b)
			m, ctx := alloc(t, b, 40_000, remote), testContext(t)
			mem := a.ep.Memory(a.peer, m.Remote())
			cell := efa.NewCell[uint64](mem)
			for i := range less(200) {
				n := []int{8, 5000, 40_000}[i%3]
				old, now := bytes.Repeat([]byte{byte(i)}, n), bytes.Repeat([]byte{byte(i + 1)}, n)
				first := start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: old})
				got, want := make([]byte, n), now
				require.NoError(t, mem.Write(ctx, now, efa.Fence))
				switch i % 4 {
				case 0, 1:
				case 2: // an atomic between
					require.NoError(t, cell.Update(ctx, amo.Sum, []uint64{1}, efa.Fence))
					want = bytes.Clone(now)
					binary.NativeEndian.PutUint64(want, binary.NativeEndian.Uint64(now)+1)
				default: // and one that fetches
					was := []uint64{0}
					require.NoError(t, cell.Fetch(ctx, amo.Write, []uint64{7}, was, efa.Fence))
					assert.Equal(t, binary.NativeEndian.Uint64(now), was[0])
					want = bytes.Clone(now)
					binary.NativeEndian.PutUint64(want, 7)
				}
				require.NoError(t, mem.Read(ctx, got, efa.Fence))
				require.True(t, bytes.Equal(want, got), "round %d, %d bytes", i, n)
				done(t, first)
			}
		})
	}
}

// TestOrderSettings: what is in force can be read, and what there is not is refused.
func TestOrderSettings(t *testing.T) {
	f := newFabric(t, sim.Config{})
	dom := domainOn(t, newDevice(t, f), efa.DomainConfig{})
	_, err := dom.NewEndpoint(efa.EndpointConfig{Order: efa.ReadAfterRead << 1})
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = dom.NewEndpoint(efa.EndpointConfig{Order: efa.SendAfterWrite, Direct: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)

	const o = efa.SendAfterWrite | efa.WriteAfterWrite
	s := newEndpoint(t, dom, efa.EndpointConfig{Order: o, Unordered: true})
	cfg := s.ep.Config()
	assert.Equal(t, o, cfg.Order)
	assert.True(t, cfg.Unordered)
	assert.Equal(t, "SendAfterWrite|WriteAfterWrite", cfg.Order.String())
	assert.Equal(t, math.MaxInt, cfg.MaxOrdered(efa.WriteAfterWrite))
	assert.Zero(t, cfg.MaxOrdered(efa.WriteAfterWrite|efa.ReadAfterWrite))
}

// TestFencesAllocateNothing: neither do fences, with operations before them under way, nor
// operations under an order.
func TestFencesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{
		dev: sim.DeviceConfig{}, mode: efa.ProgressManual, ep: efa.EndpointConfig{Order: efa.SendAfterWrite | efa.WriteAfterWrite},
	}.open(t)
	at, ctx := alloc(t, b, 4096, remote).Remote(), context.Background()
	buf := make([]byte, 64)
	var cs [8]efa.Completion
	one := func() {
		if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: at, Buf: buf, Fence: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.ep.PostRead(&efa.ReadReq{From: a.peer, At: at, Buf: buf}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Fence: true}); err != nil {
			t.Fatal(err)
		}
		for s, n := range map[*side]int{a: 7, b: 1} {
			for n > 0 {
				k, err := s.ep.SendQueue().Read(ctx, cs[:n])
				if err != nil {
					t.Fatal(err)
				}
				n -= k
			}
		}
	}
	for range 100 {
		one()
	}
	assert.Zero(t, testing.AllocsPerRun(100, one))
}
