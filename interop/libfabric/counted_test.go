//go:build linux

package libfabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/native"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// TestCounted: libfabric's writes with CQ data are counted by value and generation, once each and
// when all bytes are there, by each subprotocol that carries them.
func TestCounted(t *testing.T) {
	need(t)
	for _, e := range []environment{settings[0].shuffled(3), settings[1].shuffled(4)} {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			p := w.play(t, libfabricBegins)
			defer p.cancel()
			countedWrites(p)
		})
	}
}

func countedWrites(p *play) {
	const values, each = 4, 8
	node, ok := p.b.(*native.Node)
	require.True(p, ok)
	arr := node.Arrivals()
	sizes := []int{0, 1, 3000, 20_000, 150_000, 600_000}
	type write struct {
		mem party.Region
		op  party.Op
		of  *party.Pending
	}
	for g := range uint32(3) {
		lists := make([][]write, values)
		for i := range values * each {
			v := i * 7 % values
			data, err := efa.DataLayout{}.Data(native.Counted.First+uint32(v), g)
			require.NoError(p, err)
			x := write{op: party.Op{
				Kind: party.Write, Size: sizes[i%len(sizes)], Peer: p.toB, Seed: p.next(), HasData: true, Data: data,
				Level: []party.Level{party.Default, party.Delivered}[i%2], Registered: p.env.rdma,
			}}
			if x.op.Size == 0 {
				x.op.Registered = false
			}
			var end func()
			x.mem, end = p.region(p.b, x.op.Size+2*margin, party.AccessRemoteRead|party.AccessRemoteWrite)
			defer end()
			x.op.At = x.mem.Remote().Slice(margin, x.op.Size)
			x.of = p.start(p.a, x.op)
			lists[v] = append(lists[v], x)
		}
		for v, list := range lists {
			require.NoError(p, arr.Wait(p.ctx, native.Counted.First+uint32(v), each, efa.Addr(p.toA)))
			for _, x := range list {
				c, err := x.mem.Check(p.ctx, margin, x.op.Size)
				require.NoError(p, err)
				require.NoError(p, c.Whole(x.op.Seed, x.op.Size), "counted before it was there: %v", x.op)
			}
		}
		for v, list := range lists {
			require.Equal(p, uint64(each), arr.Count(native.Counted.First+uint32(v)))
			for _, x := range list {
				p.done(x.of)
			}
		}
		late, err := efa.DataLayout{}.Data(native.Counted.First, g-1)
		require.NoError(p, err)
		mem, end := p.region(p.b, 2*margin+100, party.AccessRemoteRead|party.AccessRemoteWrite)
		defer end()
		p.done(p.start(p.a, party.Op{
			Kind: party.Write, Size: 100, Peer: p.toB, Seed: p.next(), HasData: true, Data: late, Level: party.Delivered,
			Registered: p.env.rdma, At: mem.Remote().Slice(margin, 100),
		}))
		require.Equal(p, efa.ArrivalStats{Late: uint64(g + 1)}, arr.Stats())
		require.Equal(p, uint64(each), arr.Count(native.Counted.First))
		arr.Next()
	}
	select {
	case n := <-p.b.Notices():
		require.Fail(p, "told of a write that was counted", "%+v", n)
	default:
	}
}
