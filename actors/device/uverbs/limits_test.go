//go:build linux

package uverbs

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// TestDeeperCQ: a completion queue that is deeper than asked for is used as it is, over
// more than two laps.
func TestDeeperCQ(t *testing.T) {
	f := newFake(t)
	f.depth = func(n uint32) uint32 { return 4 * n }
	f.cq.Size = 4096
	_, q, _ := f.open(device.QPConfig{SQDepth: 2, RQDepth: 2})
	require.Len(t, q.cq.rings, 1)
	require.EqualValues(t, 4*f.entries-1, q.cq.rings[0].mask)
	f.entries *= 4
	var c [2]device.Completion
	for n := range 2*f.entries + 3 {
		q.PostRecv([]int32{0})
		f.complete(n, abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(0)), AH: abi.UnknownAH, Length: 3})
		require.Equal(t, 1, q.Poll(c[:]), "%d", n)
		require.Equal(t, 3, c[0].Len)
	}
	require.NoError(t, q.Close())
}

// TestUnevenLimits: of limits that are no powers of two no queue is made that exceeds them.
func TestUnevenLimits(t *testing.T) {
	f := newFake(t)
	f.efa.MaxSQ, f.efa.MaxRQ, f.core.MaxCQE = 200, 1000, 3000
	d, q, _ := f.open(device.QPConfig{SQDepth: 128, RQDepth: 512})
	require.Equal(t, []int{128, 512}, []int{d.info.MaxSQ, d.info.MaxRQ})
	require.LessOrEqual(t, q.sq.shape.sq, 200)
	require.LessOrEqual(t, q.sq.shape.rq, 1000)
	require.LessOrEqual(t, f.entries, 3000)
	for _, c := range []device.QPConfig{{SQDepth: 129}, {RQDepth: 513}} {
		_, err := d.OpenQP(c)
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
	require.NoError(t, q.Close())
}

// TestLeastSQ: the least send queue fits into the device's memory for it with WQEs of 64
// bytes if not with those of 128; one that does not fit at all is a lie.
func TestLeastSQ(t *testing.T) {
	f := newFake(t)
	f.limits.MinSQ, f.limits.MaxLLQ = 100, 128*abi.WQELen
	_, q, _ := f.open(device.QPConfig{SQDepth: 1})
	require.Equal(t, geometry{sq: 128, rq: 512, wqe: abi.WQELen, inline: 32, sges: 2}, q.sq.shape)
	require.NoError(t, q.Close())

	for _, most := range []func(*fake){
		func(f *fake) { f.limits.MaxLLQ = 64 * abi.WQELen },
		func(f *fake) { f.efa.MaxSQ = 127 },
	} {
		f := newFake(t)
		f.limits.MinSQ = 100
		most(f)
		_, err := Open(Config{Kernel: f})
		require.ErrorIs(t, err, errLies)
	}
}

// TestOneSGE: a card that takes one SGE gets header and payload from one copy.
func TestOneSGE(t *testing.T) {
	f := newFake(t)
	f.efa.MaxSGESQ = 1
	_, q, ah := f.open(device.QPConfig{SQDepth: 4})
	payload := make([]byte, 200)
	payload[199] = 7
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah, Header: []byte("head"), Payload: payload, LKey: 0x77}))
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah, Payload: payload, LKey: 0x77}))
	q.Doorbell()
	w := f.wqe(q, 0)
	require.EqualValues(t, 1, w.Length)
	require.Equal(t, abi.SGE{Length: 204, LKey: q.sq.lkey, Addr: addressOf(q.sq.copyOf(0))}, w.SGE[0])
	require.EqualValues(t, 7, q.sq.copyOf(0)[203])
	w = f.wqe(q, 1)
	require.Equal(t, abi.SGE{Length: 200, LKey: 0x77, Addr: addressOf(payload)}, w.SGE[0], "one alone goes from its place")
	require.NoError(t, q.Close())
}

// stubborn is a kernel that destroys no memory region.
type stubborn struct{ *fake }

func (s stubborn) Open(string) (File, error) { return s, nil }

func (s stubborn) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	var head abi.Header
	require.NoError(s.t, head.Parse(unsafe.Slice((*byte)(arg), pageLen)))
	if head.Object == abi.ObjectMR {
		return unix.EBUSY
	}
	return s.fake.Ioctl(cmd, arg)
}

// TestFailedDeregister: memory of the caller's that the kernel does not give back stays
// alive until the device is closed, because the card may still write to it.
func TestFailedDeregister(t *testing.T) {
	d, err := Open(Config{Kernel: stubborn{newFake(t)}})
	require.NoError(t, err)
	freed := make(chan struct{})
	func() {
		mem := new([1 << 16]byte)
		runtime.AddCleanup(mem, func(c chan struct{}) { close(c) }, freed)
		mr, err := d.Register(mem[:], device.LocalWrite)
		require.NoError(t, err)
		require.ErrorIs(t, mr.Close(), unix.EBUSY)
	}()
	for range 3 {
		runtime.GC()
	}
	select {
	case <-freed:
		t.Fatal("the memory is gone")
	default:
	}
	ctx := d.(*Device).ctx
	require.Len(t, ctx.held, 1)
	require.NoError(t, d.Close())
	require.Empty(t, ctx.held)
}

// TestRenew: a closed region is registered anew with other memory, and its device is busy again.
func TestRenew(t *testing.T) {
	f := newFake(t)
	d, err := Open(Config{Kernel: f})
	require.NoError(t, err)
	one, two := make([]byte, 100), make([]byte, 200)
	mr, err := d.Register(one, device.RemoteRead)
	require.NoError(t, err)
	r := mr.(device.Renewer)
	require.ErrorIs(t, r.Renew(two, 0), ErrConfig)
	require.NoError(t, r.Close())
	r.Clear()
	require.Nil(t, r.Bytes())
	require.Zero(t, f.objects[abi.ObjectMR])
	require.NoError(t, r.Renew(two, device.RemoteRead))
	require.Equal(t, 1, f.objects[abi.ObjectMR])
	require.Equal(t, addressOf(two), r.Addr())
	require.ErrorIs(t, d.Close(), device.ErrBusy)
	require.NoError(t, r.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, r.Renew(one, 0), device.ErrClosed)
}
