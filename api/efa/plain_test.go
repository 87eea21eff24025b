//go:build linux

package efa_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// denier is a device whose RDMA reads are denied for a while, although they were lent to it.
type denier struct {
	efa.Device
	qp *denierQP
}

type denierQP struct {
	device.QP
	deny  int // so many more
	reads map[uint64]bool
}

func (d *denier) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	if err != nil {
		return nil, err
	}
	d.qp = &denierQP{QP: qp, reads: map[uint64]bool{}}
	return d.qp, nil
}

func (q *denierQP) PostSend(wr *device.SendWR) error {
	if wr.Kind == device.WRRead && q.deny > 0 {
		q.deny--
		q.reads[wr.ID] = true
	}
	return q.QP.PostSend(wr)
}

func (q *denierQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if e := &c[i]; e.Op == device.OpSend && q.reads[e.ID] {
			delete(q.reads, e.ID)
			e.Status = device.StatusUnsupportedOp
		}
	}
	return n
}

// TestPlainDeniedLater: a message that was lent and cannot be read after all is sent in packets. None is
// lost, and the next one is lent again if the device lends it.
func TestPlainDeniedLater(t *testing.T) {
	var d *denier
	a, b := lab{tcp: true, mode: efa.ProgressManual, wrap: func(dev efa.Device) efa.Device {
		d = &denier{Device: dev}
		return d
	}}.open(t)
	marker(t, a, b)
	marker(t, b, a)
	src, dst := pattern(2_500_000), make([]byte, 2_500_000) // three requests
	for i, c := range []struct {
		deny int
		want string
	}{{1, "long-CTS"}, {0, "long-read"}, {3, "long-CTS"}, {0, "long-read"}} {
		d.qp.deny = c.deny
		clear(dst)
		recv := start(t, b, &efa.RecvReq{Buf: dst})
		send := start(t, a, &efa.SendReq{To: a.peer, Buf: src})
		require.Equal(t, len(src), done(t, recv).N)
		require.Equal(t, c.want, done(t, send).Protocol.String(), i)
		require.True(t, bytes.Equal(src, dst), i)
		require.Zero(t, d.qp.deny)
	}
}

// overPlain are the devices by which messages are read out of slices.
var overPlain = map[string]lab{"tcp": {tcp: true}}

// TestPlainCanceled: a canceled send gives its slice back at once. The message goes on from a copy, and
// one that is too long for that ends with an error, in order.
func TestPlainCanceled(t *testing.T) {
	const size = 300_000
	for name, l := range overPlain {
		t.Run(name+"/copied", func(t *testing.T) { plainCanceled(t, l, size, size) })
		t.Run(name+"/too long", func(t *testing.T) { plainCanceled(t, l, size, 1) })
	}
}

func plainCanceled(t *testing.T, l lab, size, limit int) {
	l.depth, l.ep.Protocol.DetachLimit = 16, limit
	a, b := l.open(t)
	marker(t, a, b)
	marker(t, b, a)
	src, dst := pattern(size), make([]byte, size)
	send := start(t, a, &efa.SendReq{To: a.peer, Buf: src})
	next := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte("next")})
	done(t, next) // so that the first is there, too
	send.Cancel()
	_, err := send.Wait(testContext(t))
	require.ErrorIs(t, err, efa.ErrCanceled)
	clear(src)
	got, err := start(t, b, &efa.RecvReq{Buf: dst}).Wait(testContext(t))
	if limit == size {
		require.NoError(t, err)
		require.Equal(t, size, got.N)
		require.True(t, bytes.Equal(pattern(size), dst))
	} else {
		require.Error(t, err)
		require.NotErrorIs(t, err, efa.ErrPeerFailed)
	}
	require.Equal(t, 4, done(t, start(t, b, &efa.RecvReq{Buf: dst})).N)
	require.Equal(t, "next", string(dst[:4]))
	recv := start(t, b, &efa.RecvReq{Buf: dst})
	again := done(t, start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(size)}))
	require.Equal(t, "long-read", again.Protocol.String())
	done(t, recv)
	require.True(t, bytes.Equal(pattern(size), dst))
}

// TestPlainAllocatesNothing: nor does it if the message is longer than one read.
func TestPlainAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, l := range overPlain {
		t.Run(name, func(t *testing.T) {
			l.depth, l.mode = 16, efa.ProgressManual
			a, b := l.open(t)
			plainAllocatesNothing(t, a, b)
		})
	}
}

func plainAllocatesNothing(t *testing.T, a, b *side) {
	marker(t, a, b)
	marker(t, b, a)
	for _, size := range []int{a.dom.Limits().MinRead, 1 << 18, 1 << 20} {
		src, dst := pattern(size), make([]byte, size)
		one := func() {
			if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: dst, Token: 1}); err != nil {
				panic(err)
			}
			if _, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: src, Token: 1}); err != nil {
				panic(err)
			}
			var ca, cb [1]efa.Completion
			for na, nb := 0, 0; na+nb < 2; {
				na += a.ep.SendQueue().TryRead(ca[:])
				nb += b.ep.SendQueue().TryRead(cb[:])
			}
			if ca[0].Protocol.String() != "long-read" || ca[0].Err != nil || cb[0].Err != nil {
				panic("another way")
			}
		}
		for range 100 {
			one()
		}
		require.Less(t, fewestAllocs(100, one), .1, size)
	}
}

// TestDeliveredPlain: where plain memory is not read, a write that has to be delivered asks whether the peer knows delivery complete all the same.
func TestDeliveredPlain(t *testing.T) {
	dev, err := efa.OpenDevice("shm:" + filepath.Join(t.TempDir(), "fabric"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	dom := domainOn(t, dev, efa.DomainConfig{})
	ours := newEndpoint(t, dom, efa.EndpointConfig{})
	theirs := newEndpoint(t, dom, efa.EndpointConfig{Protocol: ofEra(t, "1.10", efa.ProtocolConfig{})})
	introduce(t, ours, theirs)
	for _, n := range []int{100, 12_000, 65_536, 1 << 20} {
		there := alloc(t, theirs, n, remote)
		op := start(t, ours, &efa.WriteReq{To: ours.peer, At: there.Remote(), Buf: pattern(n), Level: efa.Delivered})
		_, err := op.Wait(testContext(t))
		require.ErrorIs(t, err, efa.ErrNotSupported, n)
	}
}

// TestPlainPartOfList: a direct write with data puts all but the last piece into one part. If the device
// does not write from that part, since it is too short to be registered, it goes by packets, which have
// room for few pieces.
func TestPlainPartOfList(t *testing.T) {
	const n, pieces = 4096, 8
	l := lab{dev: sim.DeviceConfig{RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MinRegister: n}}
	a, b := l.open(t)
	there := alloc(t, b, n, remote)
	at, got := scattered(rand.New(rand.NewPCG(1, 2)), there, n, pieces)
	data := pattern(n)
	require.Equal(t, n, done(t, start(t, a, &efa.WriteReq{To: a.peer, Ats: at, Buf: data, HasData: true, Data: 7})).N)
	_, err := b.ep.RecvQueue().Read(testContext(t), make([]efa.Completion, 1))
	require.NoError(t, err)
	require.Equal(t, data, got())
}
