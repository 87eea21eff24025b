//go:build linux

package driver_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/faults"
)

// hosts are endpoints on emulated cards of one fabric.
type hosts struct {
	t   *testing.T
	dir string
}

func newHosts(t *testing.T) *hosts { return &hosts{t, filepath.Join(t.TempDir(), "fabric")} }

// card opens the driver on a card of a GID of its own.
func (h *hosts) card(name, list string) (device.Device, *driver.Card) {
	carrier, err := shm.Open(shm.Config{Dir: h.dir, GID: shm.HostGID(name)})
	require.NoError(h.t, err)
	plan, err := faults.Parse(list)
	require.NoError(h.t, err)
	card, err := driver.NewFaulty(carrier, named(h.t, "rdma-write", nil), plan)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, card.Close()) })
	run(h.t, []*driver.Card{card})
	d, err := uverbs.Open(uverbs.Config{Name: name, Kernel: card.System()})
	require.NoError(h.t, err)
	return d, card
}

// endpoint opens one on a device, which it closes.
func (h *hosts) endpoint(d device.Device) *efa.Endpoint {
	ep, err := efa.OpenEndpoint(h.context(), efa.Setup{Fabric: efa.Config{Device: d}})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		require.NoError(h.t, ep.Close())
		require.NoError(h.t, d.Close())
	})
	return ep
}

func (h *hosts) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	h.t.Cleanup(cancel)
	return ctx
}

// swap sends a message there and back.
func (h *hosts) swap(a, b *efa.Endpoint, toB, toA efa.Addr, n int) error {
	ctx := h.context()
	for _, way := range []struct {
		from, to *efa.Endpoint
		h        efa.Addr
	}{{a, b, toB}, {b, a, toA}} {
		p, q := bytes.Repeat([]byte{byte(n), 7}, n/2), make([]byte, n)
		op, err := way.to.Start(&efa.RecvReq{Buf: q})
		if err != nil {
			return err
		}
		if err := way.from.Send(ctx, way.h, p); err != nil {
			return err
		}
		if _, err := op.Wait(ctx); err != nil {
			return err
		}
		require.Equal(h.t, p, q)
	}
	return nil
}

// TestJoinedCards: two cards of a host are one device: messages go by the first, large reads
// and writes by both.
func TestJoinedCards(t *testing.T) {
	h := newHosts(t)
	var eps []*efa.Endpoint
	var all [][]*driver.Card
	for _, host := range []string{"a", "b"} {
		first, one := h.card("efa:"+host+"0", "")
		second, two := h.card("efa:"+host+"1", "")
		d, err := efa.JoinDevices(first, second)
		require.NoError(t, err)
		eps = append(eps, h.endpoint(d))
		all = append(all, []*driver.Card{one, two})
	}
	ctx := h.context()
	toB, err := eps[0].AddressVector().Insert(eps[1].Address())
	require.NoError(t, err)
	toA, err := eps[1].AddressVector().Insert(eps[0].Address())
	require.NoError(t, err)
	for _, n := range []int{8, 9000, 300_000} {
		require.NoError(t, h.swap(eps[0], eps[1], toB, toA, n))
	}
	moved := func() (n []uint64) {
		for _, c := range all[0] {
			s := c.Engine.Stats()
			n = append(n, s.SentBytes)
		}
		return n
	}
	require.Positive(t, moved()[0])
	require.Zero(t, moved()[1])
	const n = 2 << 20
	there, err := eps[1].Domain().Alloc(n, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(t, err)
	local, err := eps[0].Domain().Alloc(n, 0)
	require.NoError(t, err)
	for i := range local.Bytes() {
		local.Bytes()[i] = byte(i>>12) ^ byte(i)
	}
	mem := eps[0].Memory(toB, there.Remote())
	require.NoError(t, mem.Write(ctx, local.Bytes(), efa.Complete(efa.Delivered)))
	require.True(t, bytes.Equal(local.Bytes(), there.Bytes()))
	require.EqualValues(t, n/2, moved()[1], "half of it")
	clear(local.Bytes())
	require.NoError(t, mem.Read(ctx, local.Bytes()))
	require.True(t, bytes.Equal(local.Bytes(), there.Bytes()))
	require.NoError(t, local.Close())
	require.NoError(t, there.Close())
}

// TestCardComesBack: the kernel ends a queue pair, and the endpoint is enabled again, with a
// queue pair number that the card chooses. After a reset it cannot be.
func TestCardComesBack(t *testing.T) {
	h := newHosts(t)
	d, card := h.card("efa:a", "qp-fatal@40")
	a := h.endpoint(d)
	other, _ := h.card("efa:b", "")
	b := h.endpoint(other)
	ctx := h.context()
	toB, err := a.AddressVector().Insert(b.Address())
	require.NoError(t, err)
	toA, err := b.AddressVector().Insert(a.Address())
	require.NoError(t, err)
	var failed error
	for range 1000 {
		if failed = h.swap(a, b, toB, toA, 100); failed != nil {
			break
		}
	}
	require.Error(t, failed) // a's queue pair has ended, or b met that first
	ev, err := a.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.DeviceFailed, ev.Kind)
	require.NoError(t, a.Enable(ctx))
	ev, err = a.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.EnabledAgain, ev.Kind)
	toA, err = b.AddressVector().Insert(ev.Address)
	require.NoError(t, err)
	op, err := b.Start(&efa.RecvReq{Buf: make([]byte, 100)})
	require.NoError(t, err)
	for range 2 { // b may have a receive of the time before
		require.NoError(t, a.Send(ctx, toB, []byte("back")))
	}
	_, err = op.Wait(ctx)
	require.NoError(t, err)
	op, err = a.Start(&efa.RecvReq{Buf: make([]byte, 100)})
	require.NoError(t, err)
	require.NoError(t, b.Send(ctx, toA, []byte("welcome")))
	_, err = op.Wait(ctx)
	require.NoError(t, err)

	card.Kernel.Remove()
	ev, err = a.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.DeviceFailed, ev.Kind)
	require.Error(t, a.Enable(ctx))
}
