package efa_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// listDevices are devices on which operations with lists take every way.
var listDevices = map[string]lab{
	"packets": {},
	"reads":   {dev: sim.DeviceConfig{RDMARead: true, LocalKeys: true}},
	"rdma":    {dev: sim.DeviceConfig{RDMARead: true, RDMAWrite: true, UnsolicitedWrite: true, MaxRDMA: 3000}},
	"keys":    {dev: sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: 3000}},
	"shm":     {shm: true},
}

// cutAt is mem in count pieces of different lengths, some of them empty.
func cutAt(r *rand.Rand, mem []byte, count int) (pieces [][]byte) {
	for left := count; left > 1; left-- {
		n := min(len(mem), r.IntN(2*len(mem)/left+1))
		pieces, mem = append(pieces, mem[:n:n]), mem[n:]
	}
	return append(pieces, mem)
}

// TestLists: writes and reads between lists on both sides bring every byte to its place, on
// every device, with one outcome; data of a write comes once, after all of its bytes.
func TestLists(t *testing.T) {
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			l.ep.Protocol = efa.ProtocolConfig{MinReadWrite: 40_000}
			a, b := l.open(t)
			ctx := testContext(t)
			there, here := alloc(t, b, 300_000, remote), alloc(t, a, 300_000, efa.AccessSend|efa.AccessRecv).Bytes()
			r := rand.New(rand.NewPCG(1, 2))
			for i, c := range []struct{ n, local, remote int }{
				{100, 3, 1}, {100, 1, 3}, {2000, 4, 4}, {2000, 5, 9}, {50_000, 2, 2}, {50_000, 9, 3}, {200_000, 40, 256}, {200_000, 1, 5}, {0, 3, 3},
			} {
				data := pattern(c.n + i)[i:]
				at, want := scattered(r, there, c.n, c.remote)
				clear(there.Bytes())
				from := cutAt(r, here[:c.n], c.local)
				copy(here, data)
				w := efa.WriteReq{To: a.peer, Ats: at, Bufs: from, HasData: true, Data: uint64(i)}
				if i%2 == 1 {
					w.Level = efa.Delivered
				}
				op := start(t, a, &w)
				got, err := b.ep.RecvQueue().Read(ctx, make([]efa.Completion, 1))
				require.NoError(t, err)
				require.Equal(t, 1, got)
				require.Equal(t, data, want(), "%+v", c) // all bytes are there when the data is
				x := done(t, op)
				require.Equal(t, c.n, x.N)
				clear(here)
				op = start(t, a, &efa.ReadReq{From: a.peer, Ats: at, Bufs: cutAt(r, here[:c.n], c.local)})
				require.Equal(t, c.n, done(t, op).N)
				require.Equal(t, data, here[:c.n:c.n], "%+v", c)
			}
		})
	}
}

// scattered is n bytes of a region in count pieces in another order than they lie in, and a
// look at them.
func scattered(r *rand.Rand, m *efa.MemoryRegion, n, count int) (at []efa.Remote, read func() []byte) {
	mem := m.Bytes()
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	pieces := cutAt(r, mem[:n], count)
	r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for _, p := range pieces {
		off := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p))) - base)
		at = append(at, m.Remote().Slice(off, uint64(len(p))))
	}
	return at, func() []byte {
		b := make([]byte, 0, n)
		for _, p := range pieces {
			b = append(b, p...)
		}
		return b
	}
}

// TestListsRefused: what is wrong with a list is an error of the call, or of the operation if
// the peer finds it, which then leaves nothing in progress.
func TestListsRefused(t *testing.T) {
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			a, b := l.open(t)
			there := alloc(t, b, 1000, remote)
			all := there.Remote()
			buf := make([]byte, 100)
			half := all.Slice(0, 50)
			many := make([][]byte, efa.IOVLimit+1)
			for _, c := range []struct {
				req efa.Request
				err error
			}{
				{&efa.WriteReq{To: a.peer, At: all, Ats: []efa.Remote{half, half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: []efa.Remote{half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: []efa.Remote{half, half, half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: make([]efa.Remote, efa.RMAIOVLimit+1), Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, At: all, Bufs: many}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, At: all, Buf: buf, Bufs: [][]byte{buf}}, efa.ErrInvalid},
				{&efa.ReadReq{From: a.peer, Ats: []efa.Remote{half}, Buf: buf}, efa.ErrInvalid},
				{&efa.ReadReq{From: a.peer, At: all, Bufs: many}, efa.ErrInvalid},
				{&efa.RecvReq{Bufs: many}, efa.ErrInvalid},
				{&efa.SendReq{To: a.peer, Bufs: many}, efa.ErrInvalid},
				{&efa.SendReq{To: a.peer, Bufs: [][]byte{make([]byte, 4000), make([]byte, 4000)}, Inject: true}, efa.ErrMsgSize},
			} {
				_, err := a.ep.Start(c.req)
				require.ErrorIs(t, err, c.err, "%T", c.req)
			}
			require.Equal(t, []int{efa.IOVLimit, efa.RMAIOVLimit}, []int{a.dom.Limits().IOV, a.dom.Limits().RMAIOV})
			ctx := testContext(t)
			// The sixth piece is not the peer's.
			addr, key := all.Raw()
			var at []efa.Remote
			for i := range 6 {
				at = append(at, all.Slice(uint64(i)*10, 10))
			}
			at[5] = efa.RawRemote(addr+995, 10, key)
			op := start(t, a, &efa.ReadReq{From: a.peer, Ats: at, Buf: make([]byte, 60)})
			_, err := op.Wait(ctx)
			require.Error(t, err)
			op = start(t, a, &efa.WriteReq{To: a.peer, Ats: at, Buf: make([]byte, 60), Level: efa.Delivered, HasData: true})
			_, err = op.Wait(ctx)
			require.Error(t, err)
			at[5] = all.Slice(0, 10) // overlaps
			op = start(t, a, &efa.WriteReq{To: a.peer, Ats: at, Buf: make([]byte, 60), Level: efa.Delivered})
			require.Equal(t, 60, done(t, op).N)
		})
	}
}

// TestListAllocations: an operation with lists allocates nothing at either side.
func TestListAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			l.mode = efa.ProgressManual
			a, b := l.open(t)
			ctx := context.Background()
			there, here := alloc(t, b, 1<<20, remote|efa.AccessRecv), alloc(t, a, 1<<20, efa.AccessSend|efa.AccessRecv)
			var cs [4]efa.Completion
			finish := func(q *efa.Queue) {
				n, err := q.Read(ctx, cs[:1])
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.NoError(t, cs[0].Err)
			}
			steady := func(what string, one func()) {
				t.Helper()
				for range 100 {
					one()
				}
				require.Less(t, fewestAllocs(50, one), 0.1, what)
			}
			for _, count := range []int{3, 40} {
				for _, size := range []int{64, 4096} {
					var at []efa.Remote
					var from, to [][]byte
					for i := range count {
						at = append(at, there.Remote().Slice(uint64((count-i)*8192), uint64(size)))
						from = append(from, here.Bytes()[i*8192:][:size])
						to = append(to, there.Bytes()[i*8192:][:size])
					}
					what := fmt.Sprintf("%d of %d bytes", count, size)
					w := efa.WriteReq{To: a.peer, Ats: at, Bufs: from, HasData: true}
					steady("write of "+what, func() {
						_, err := a.ep.PostWrite(&w)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
						finish(b.ep.RecvQueue())
					})
					r := efa.ReadReq{From: a.peer, Ats: at, Bufs: from}
					steady("read of "+what, func() {
						_, err := a.ep.PostRead(&r)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
					})
					send, recv := efa.SendReq{To: a.peer, Bufs: from}, efa.RecvReq{Bufs: to}
					steady("message of "+what, func() {
						_, err := b.ep.PostRecv(&recv)
						require.NoError(t, err)
						_, err = a.ep.PostSend(&send)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
						finish(b.ep.RecvQueue())
					})
				}
			}
		})
	}
}
