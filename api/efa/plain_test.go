//go:build linux

package efa_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
)

func init() { plainRole = plainChild }

// plainChild sends back what it is sent, from a slice.
func plainChild(dir string) error {
	if os.Getenv(plainEnv) == "hidden" {
		if err := hide(); err != nil {
			return err
		}
	}
	ctx := context.Background()
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	for buf := make([]byte, 6<<20); ; {
		m, err := ep.Recv(ctx, buf)
		if err != nil || m.N == 0 {
			return err
		}
		if err := ep.Send(ctx, parent, bytes.Clone(buf[:m.N])); err != nil {
			return err
		}
	}
}

// exchangePlain has the child send back messages of every size class, and returns by size how
// ours went, and how much was read of the child's.
func exchangePlain(t *testing.T, place, how string) (ways map[int]string, read map[int]uint64) {
	dev, err := meet(place)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	me := open(t, dev, efa.DomainConfig{})
	cmd, addr := startChild(t, place, me.ep.Address(), plainEnv+"="+how)
	me.peer, err = me.av.Insert(addr)
	require.NoError(t, err)
	reads := func() uint64 {
		stats, err := me.ep.Stats(testContext(t))
		require.NoError(t, err)
		return stats["Queue.RDMABytes"]
	}
	ways, read = map[int]string{}, map[int]uint64{}
	for _, n := range []int{1, 2, 120, 8_000, 9_000, plainFrom - 1, plainFrom, plainFrom + 1, 1 << 16, 1<<16 + 1, 1 << 18, 1<<18 + 1, 1<<20 + 7, 5 << 20} {
		before, p, q := reads(), make([]byte, n), make([]byte, n+1)
		stamp(p, uint64(n))
		recv := start(t, me, &efa.RecvReq{Buf: q})
		ways[n] = done(t, start(t, me, &efa.SendReq{To: me.peer, Buf: p})).Protocol.String()
		require.Equal(t, n, done(t, recv).N)
		require.True(t, bytes.Equal(p, q[:n]), n)
		require.Zero(t, q[n])
		read[n] = reads() - before
	}
	require.NoError(t, me.ep.Send(testContext(t), me.peer, nil))
	require.NoError(t, cmd.Wait())
	return ways, read
}

// plainFrom is from how many bytes on the device of shm has messages read.
const plainFrom = 16 << 10

// TestPlainProcesses: messages of every size go between slices of two processes, those of 16 KiB
// and more by one copy each way.
func TestPlainProcesses(t *testing.T) {
	dir := privateDir(t)
	ways, read := exchangePlain(t, dir, "open")
	for n, way := range ways {
		if n < plainFrom {
			require.NotEqual(t, "long-read", way, n)
			require.Zero(t, read[n], n)
		} else {
			require.Equal(t, "long-read", way, n)
			require.EqualValues(t, n, read[n])
		}
	}
}

// TestPlainProcessesDenied: where the kernel denies a side the other's memory messages go by packets, from
// the first on.
func TestPlainProcessesDenied(t *testing.T) {
	place := "files:" + privateDir(t)
	weaken(t)
	ways, read := exchangePlain(t, place, "hidden")
	for n, way := range ways {
		if os.Geteuid() == 0 { // may read all; its child has lost that right
			require.NotEqual(t, "long-read", way, n)
		} else {
			require.Zero(t, read[n], n)
		}
	}
}

func privateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

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
	a, b, _ := openHosts(t, efa.ProgressManual, func(dev efa.Device) efa.Device {
		d = &denier{Device: dev}
		return d
	})
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
var overPlain = map[string]lab{"shm": {shm: true, plain: true}, "tcp": {tcp: true}}

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

// TestNoPlain: a receiver that has not asked for more gets packets.
func TestNoPlain(t *testing.T) {
	name := "shm:" + privateDir(t)
	var sides [2]*side
	for i, options := range []string{"?plain?anyreader", "?anyreader"} {
		dev, err := efa.OpenDevice(name + options)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		sides[i] = open(t, dev, efa.DomainConfig{})
	}
	introduce(t, sides[0], sides[1])
	marker(t, sides[0], sides[1])
	marker(t, sides[1], sides[0])
	for i, want := range []string{"long-CTS", "long-read"} {
		from, to, dst := sides[i], sides[1-i], make([]byte, 100_000)
		recv := start(t, to, &efa.RecvReq{Buf: dst})
		require.Equal(t, want, done(t, start(t, from, &efa.SendReq{To: from.peer, Buf: pattern(100_000)})).Protocol.String())
		done(t, recv)
		require.True(t, bytes.Equal(pattern(100_000), dst))
	}
}

// TestRegisteredPlain: a message from registered memory is read as one from a slice, if the memory is for
// messages. To close the region does not wait for the peer.
func TestRegisteredPlain(t *testing.T) {
	const size = 300_000
	a, b := lab{shm: true, plain: true, depth: 16, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{DetachLimit: size}}}.open(t)
	marker(t, a, b)
	marker(t, b, a)
	dst := make([]byte, size)
	m, err := a.dom.Register(pattern(size), efa.AccessSend)
	require.NoError(t, err)
	for range 2 {
		clear(dst)
		recv := start(t, b, &efa.RecvReq{Buf: dst})
		require.Equal(t, "long-read", done(t, start(t, a, &efa.SendReq{To: a.peer, Buf: m.Bytes()})).Protocol.String())
		done(t, recv)
		require.True(t, bytes.Equal(pattern(size), dst))
	}
	send := start(t, a, &efa.SendReq{To: a.peer, Buf: m.Bytes()})
	require.NoError(t, m.Close())
	_, err = send.Wait(testContext(t))
	require.ErrorIs(t, err, efa.ErrCanceled)
	clear(m.Bytes())
	clear(dst)
	done(t, start(t, b, &efa.RecvReq{Buf: dst}))
	require.True(t, bytes.Equal(pattern(size), dst), "a copy went")
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
	for _, size := range []int{max(plainFrom, a.dom.Limits().MinRead), 1 << 18, 1 << 20} {
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

// hide makes the process one whose memory others of its user may not read.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// weaken takes from processes that this goroutine starts the right of root to read any memory. The
// thread ends with the goroutine.
func weaken(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_PTRACE, 0, 0, 0)
	require.True(t, err == nil || os.Geteuid() != 0 && errors.Is(err, unix.EPERM), err)
}
