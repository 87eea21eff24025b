package devicetest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// Rights that cases ask for.
const (
	allAccess = device.LocalWrite | device.RemoteRead | device.RemoteWrite
	canRead   = device.RemoteRead
	canWrite  = device.LocalWrite | device.RemoteWrite
)

// alloc makes a region of n bytes on device i, of the lender's memory if there is one.
func (w *world) alloc(i, n int, a device.Access) device.MR {
	w.Helper()
	if w.lender != nil {
		return w.owned(w.lender.lend(w.f.Devices[i], n, a))
	}
	return w.allocOwn(i, n, a)
}

// allocOwn makes a region of memory of the device.
func (w *world) allocOwn(i, n int, a device.Access) device.MR {
	w.Helper()
	mr, err := w.f.Devices[i].Alloc(n, a)
	return w.owned(mr, err)
}

// owned makes sure that a region is closed in the end.
func (w *world) owned(mr device.MR, err error) device.MR {
	w.Helper()
	require.NoError(w, err)
	w.Cleanup(func() {
		if err := mr.Close(); err != nil && !errors.Is(err, device.ErrClosed) {
			w.Errorf("close of a region: %v", err)
		}
	})
	return mr
}

// own is memory for the local side of RDMA.
type own struct {
	b   []byte
	key uint32
	mr  device.MR // nil if the device needs no region
}

// own returns size bytes, in a region if it must be.
func (n *node) own(size int) own {
	n.w.Helper()
	if !n.w.f.Devices[n.dev].Info().LocalKeys {
		return own{b: make([]byte, size)}
	}
	mr := n.w.allocOwn(n.dev, max(size, 1), device.LocalWrite)
	return own{b: mr.Bytes()[:size], key: mr.LKey(), mr: mr}
}

// at is a part of the memory.
func (o own) at(off, n int) own { return own{b: o.b[off : off+n : off+n], key: o.key, mr: o.mr} }

// rdma makes a request between o and what is off bytes from the start of mr.
func (n *node) rdma(kind device.WR, ah device.AH, to *node, o own, mr device.MR, off int) *device.SendWR {
	wr := n.wr(ah, to, nil, o.b)
	wr.Kind, wr.LKey = kind, o.key
	wr.RKey, wr.Remote = mr.RKey(), mr.Addr()+uint64(off)
	return wr
}

// post posts a request and returns its ID.
func (n *node) post(wr *device.SendWR) uint64 {
	n.w.Helper()
	require.NoError(n.w, n.PostSend(wr))
	n.Doorbell()
	return wr.ID
}

// takeWritten takes an OpWritten; its slot is posted again unless n keeps them.
func (n *node) takeWritten(c *device.Completion) error {
	if !c.HasImm || c.Len < 0 || c.Status != device.StatusOK {
		return fmt.Errorf("impossible write %+v", *c)
	}
	n.landed = append(n.landed, *c)
	if n.w.f.Devices[n.dev].Info().UnsolicitedWrite {
		if c.ID != device.NoSlot {
			return fmt.Errorf("an unsolicited write took slot %d", c.ID)
		}
		return nil
	}
	if c.ID >= uint64(n.RecvSlots()) {
		return fmt.Errorf("a write took slot %d", c.ID)
	}
	if !n.keep {
		n.PostRecv([]int32{int32(c.ID)})
	}
	return nil
}

// write waits for an OpWritten and takes it off the list.
func (n *node) write() device.Completion {
	n.w.Helper()
	n.w.until("write with immediate", func() bool { return len(n.landed) > 0 })
	c := n.landed[0]
	n.landed = n.landed[1:]
	return c
}

// kinds are the RDMA operations that the devices have.
func (w *world) kinds() []device.WR {
	var ks []device.WR
	if w.f.reads() {
		ks = append(ks, device.WRRead)
	}
	if w.f.writes() {
		ks = append(ks, device.WRWrite)
	}
	return ks
}

// sameAs reports whether b is the beginning of fill's pattern for size bytes and tag.
func sameAs(b []byte, tag uint64, size int) bool {
	return string(fill(make([]byte, size), tag)[:len(b)]) == string(b)
}
