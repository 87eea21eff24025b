//go:build linux

package driver_test

import (
	"context"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// host is an endpoint on an emulated card of its own.
type host struct {
	t    *testing.T
	dom  *efa.Domain
	ep   *efa.Endpoint
	peer efa.Addr // the other host
	card *driver.Card
	sent *watched
	mem  *locked
}

// pairOf opens two endpoints, which have each other's HANDSHAKE.
func pairOf(t *testing.T, p profile.Profile, dc efa.DomainConfig, pc efa.ProtocolConfig) (a, b *host) {
	if pc.ProbeAfter == 0 {
		pc.ProbeAfter = 30 * time.Second // the tests count packets
	}
	carrier := shared(t)
	var both [2]*host
	var cards []*driver.Card
	for i := range both {
		h := &host{t: t, mem: new(locked)}
		card, err := driver.New(carrier(i), p)
		require.NoError(t, err)
		h.card = card
		h.mem.Kernel = card.System()
		d, err := uverbs.Open(uverbs.Config{Path: "/dev/infiniband/uverbs0", Kernel: h.mem})
		require.NoError(t, err)
		h.sent = &watched{Device: d}
		t.Cleanup(func() { h.left() })
		both[i], cards = h, append(cards, card)
	}
	run(t, cards)
	for _, h := range both {
		fab, err := efa.Open(efa.Config{Device: h.sent})
		require.NoError(t, err)
		h.dom, err = fab.OpenDomain(dc)
		require.NoError(t, err)
		h.ep, err = h.dom.NewEndpoint(efa.EndpointConfig{AV: h.dom.NewAddressVector(), Protocol: pc})
		require.NoError(t, err)
		require.NoError(t, h.ep.Enable(timeout(t)))
		t.Cleanup(func() {
			require.NoError(t, h.ep.Close())
			require.NoError(t, h.dom.Close())
			require.NoError(t, fab.Close())
		})
	}
	a, b = both[0], both[1]
	for _, x := range [][2]*host{{a, b}, {b, a}} {
		var err error
		x[0].peer, err = x[0].ep.AddressVector().Insert(x[1].ep.Address())
		require.NoError(t, err)
	}
	for range 2 {
		pass(a, b, []byte("word"), make([]byte, 4))
		pass(b, a, []byte("word"), make([]byte, 4))
	}
	return a, b
}

// left checks that nothing is left of the host.
func (h *host) left() {
	if err := h.sent.Close(); err != nil {
		require.ErrorIs(h.t, err, device.ErrClosed)
	}
	require.Equal(h.t, kernel.Stats{}, h.card.Kernel.Stats())
	found, _ := h.card.Findings.Take()
	require.Empty(h.t, found)
	require.NoError(h.t, h.card.Close())
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pass sends a message, whose receive is posted first.
func pass(from, to *host, src, dst []byte) {
	from.t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		m, err := to.ep.Recv(timeout(to.t), dst)
		if err != nil || m.N != len(src) {
			to.t.Errorf("received %d bytes: %v", m.N, err)
		}
	})
	require.NoError(from.t, from.ep.Send(timeout(from.t), from.peer, src))
	wg.Wait()
}

// counts are the counters of an endpoint since the last call.
func (h *host) counts(before map[string]uint64) func(name string) int {
	stats, err := h.ep.Stats(timeout(h.t))
	require.NoError(h.t, err)
	return func(name string) int { return int(stats[name] - before[name]) }
}

func (h *host) stats() map[string]uint64 {
	stats, err := h.ep.Stats(timeout(h.t))
	require.NoError(h.t, err)
	return stats
}

// watched counts the bytes of payloads by where the device takes them from.
type watched struct {
	device.Device
	sync.Mutex
	copied, gathered int
}

type watchedQP struct {
	device.QP
	w *watched
}

func (w *watched) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := w.Device.OpenQP(c)
	if err != nil {
		return nil, err
	}
	return &watchedQP{qp, w}, nil
}

func (q *watchedQP) PostSend(wr *device.SendWR) error {
	if wr.Kind == device.WRSend {
		q.w.Lock()
		if wr.LKey != 0 {
			q.w.gathered += len(wr.Payload)
		} else {
			q.w.copied += len(wr.Payload)
		}
		q.w.Unlock()
	}
	return q.QP.PostSend(wr)
}

// take returns the counts and begins anew.
func (w *watched) take() (copied, gathered int) {
	w.Lock()
	defer w.Unlock()
	copied, gathered = w.copied, w.gathered
	w.copied, w.gathered = 0, 0
	return copied, gathered
}

// locked is a system with a limit of locked memory, beyond which regions are refused.
type locked struct {
	uverbs.Kernel
	sync.Mutex
	most  uint64 // 0: there is none
	bytes uint64
	of    map[uint32]uint64 // by handle
}

type lockedFile struct {
	uverbs.File
	l *locked
}

func (l *locked) Open(path string) (uverbs.File, error) {
	f, err := l.Kernel.Open(path)
	if err != nil {
		return nil, err
	}
	return &lockedFile{f, l}, nil
}

// set makes n bytes more than what is locked the limit.
func (l *locked) set(n uint64) {
	l.Lock()
	defer l.Unlock()
	l.most = l.bytes + n
}

func (l *locked) now() uint64 {
	l.Lock()
	defer l.Unlock()
	return l.bytes
}

// Ioctl implements uverbs.File. It reads a command as the kernel does.
func (f *lockedFile) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	var h abi.Header
	page := unsafe.Slice((*byte)(arg), abi.MaxIoctl)
	if err := h.Parse(page); err != nil {
		return err
	}
	attrs := make(map[uint16]abi.Attr)
	for i := range int(h.Attrs) {
		var a abi.Attr
		_ = a.Parse(page[abi.HeaderLen+i*abi.AttrLen:])
		attrs[a.ID] = a
	}
	at := func(id uint16) []byte { // everything lies in the same two pages
		off := uintptr(attrs[id].Data) - uintptr(arg)
		return unsafe.Slice((*byte)(unsafe.Add(arg, off)), attrs[id].Len)
	}
	l := f.l
	l.Lock()
	defer l.Unlock()
	var in abi.RegMR
	reg := h.Object == abi.ObjectDevice && h.Method == abi.DeviceInvokeWrite && attrs[abi.InvokeWriteCmd].Data == abi.CmdRegMR
	if reg {
		_ = in.Parse(at(abi.InvokeCoreIn))
		if l.most > 0 && l.bytes+in.Length > l.most {
			return unix.ENOMEM
		}
	}
	if err := f.File.Ioctl(cmd, arg); err != nil {
		return err
	}
	switch {
	case reg:
		var out abi.RegMRResp
		_ = out.Parse(at(abi.InvokeCoreOut))
		if l.of == nil {
			l.of = make(map[uint32]uint64)
		}
		l.of[out.Handle] = in.Length
		l.bytes += in.Length
	case h.Object == abi.ObjectMR && h.Method == abi.MRDestroy:
		handle := uint32(attrs[0].Data)
		l.bytes -= l.of[handle]
		delete(l.of, handle)
	}
	return nil
}
