package devicetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// patience is how long a case waits for an event.
const patience = time.Minute

// idlePolls is how often a case polls to see that an event does not happen.
const idlePolls = 300

// world is one case's fabric with its queue pairs.
type world struct {
	testing.TB
	f     *Fabric
	ctx   context.Context
	nodes []*node

	lender *lender // whose memory alloc takes; nil: the devices'
}

func newWorld(tb testing.TB, f *Fabric, wait time.Duration) *world {
	ctx, cancel := context.WithTimeout(tb.Context(), wait)
	tb.Cleanup(cancel)
	return &world{TB: tb, f: f, ctx: ctx}
}

// node is a queue pair with its completions so far.
type node struct {
	device.QP
	w     *world
	dev   int // index of its device
	gid   device.GID
	mtu   int
	qkey  uint32
	keep  bool // do not post slots again by itself
	comps [16]device.Completion

	recvs []packet
	sends map[uint64]device.Status
	order []uint64 // of sends, as they completed
	gone  []device.Completion
	// beforeGone is how many packets came before the latest of gone.
	beforeGone int
	landed     []device.Completion // OpWritten
	denied     []device.Completion // OpRefused
	nextID     uint64
}

// packet is the result of a receive.
type packet struct {
	device.Completion
	data []byte
}

// open makes a queue pair on device i with every slot posted.
func (w *world) open(i int, cfg device.QPConfig) *node {
	w.Helper()
	n := w.openBare(i, cfg)
	n.postAll()
	return n
}

// openBare makes a queue pair with nothing posted.
func (w *world) openBare(i int, cfg device.QPConfig) *node {
	w.Helper()
	qp := w.openQP(i, cfg)
	info := w.f.Devices[i].Info()
	n := &node{QP: qp, w: w, dev: i, gid: info.GID, mtu: info.MTU, qkey: cfg.QKey, sends: map[uint64]device.Status{}}
	w.nodes = append(w.nodes, n)
	w.Cleanup(func() {
		if err := qp.Close(); err != nil && !errors.Is(err, device.ErrClosed) {
			w.Errorf("close: %v", err)
		}
	})
	return n
}

// openQP opens a queue pair, of a number that no other of the case has if one is asked for:
// a card chooses it.
func (w *world) openQP(i int, cfg device.QPConfig) device.QP {
	w.Helper()
	distinct := w.f.Hardware && cfg.QPN != 0
	if distinct {
		cfg.QPN = 0
	}
	for {
		qp, err := w.f.Devices[i].OpenQP(cfg)
		require.NoError(w, err)
		taken := slices.ContainsFunc(w.nodes, func(n *node) bool { return n.QPN() == qp.QPN() })
		if !distinct || !taken {
			return qp
		}
		defer func() { require.NoError(w, qp.Close()) }()
	}
}

// PostRecv gives slots to the device.
func (n *node) PostRecv(slots []int32) {
	n.QP.PostRecv(slots)
	if n.w.f.Posted != nil {
		n.w.f.Posted()
	}
}

func (n *node) postAll() {
	slots := make([]int32, n.RecvSlots())
	for i := range slots {
		slots[i] = int32(i)
	}
	n.PostRecv(slots)
	n.Doorbell()
}

// ah returns an address handle of to.
func (n *node) ah(to *node) device.AH {
	n.w.Helper()
	ah, err := n.CreateAH(to.gid)
	require.NoError(n.w, err)
	require.NotEqual(n.w, device.UnknownAH, ah)
	return ah
}

// wr is a send of data to to, with a fresh ID.
func (n *node) wr(ah device.AH, to *node, header, payload []byte) *device.SendWR {
	n.nextID++
	return &device.SendWR{ID: n.nextID, AH: ah, QPN: to.QPN(), QKey: to.qkey, Header: header, Payload: payload}
}

// send posts data and returns the ID.
func (n *node) send(ah device.AH, to *node, data []byte) uint64 {
	n.w.Helper()
	wr := n.wr(ah, to, data, nil)
	require.NoError(n.w, n.PostSend(wr))
	n.Doorbell()
	return wr.ID
}

// poll takes completions.
func (n *node) poll() {
	got := n.Poll(n.comps[:])
	for i := range n.comps[:got] {
		if err := n.take(&n.comps[i]); err != nil {
			n.w.Errorf("qp %d: %v", n.QPN(), err)
		}
	}
}

func (n *node) take(c *device.Completion) error {
	switch c.Op {
	case device.OpRecv:
		if c.ID >= uint64(n.RecvSlots()) || c.Len < 0 || c.Len > n.mtu {
			return fmt.Errorf("impossible receive %+v", *c)
		}
		b := n.RecvBytes(int(c.ID))[:c.Len]
		n.recvs = append(n.recvs, packet{*c, append([]byte{}, b...)})
		if !n.keep {
			n.PostRecv([]int32{int32(c.ID)})
		}
	case device.OpSend:
		if st, twice := n.sends[c.ID]; twice {
			return fmt.Errorf("send %d completed twice, %v and %v", c.ID, st, c.Status)
		}
		n.sends[c.ID] = c.Status
		n.order = append(n.order, c.ID)
	case device.OpWritten:
		return n.takeWritten(c)
	case device.OpRefused:
		n.denied = append(n.denied, *c)
	case device.OpGone:
		n.gone, n.beforeGone = append(n.gone, *c), len(n.recvs)
	default:
		return fmt.Errorf("completion of an unknown kind %+v", *c)
	}
	return nil
}

// turn polls everything once.
func (w *world) turn() {
	for _, n := range w.nodes {
		n.poll()
	}
	if w.f.Progress != nil {
		w.f.Progress()
	} else {
		runtime.Gosched()
	}
}

// until turns until cond holds.
func (w *world) until(what string, cond func() bool) {
	w.Helper()
	for !cond() {
		if w.ctx.Err() != nil {
			w.Fatalf("never happened: %s", what)
		}
		w.turn()
	}
}

// idle polls for a while, so that unwanted events have time to happen.
func (w *world) idle() {
	for range idlePolls {
		w.turn()
	}
}

// status waits for the completion of a send.
func (n *node) status(id uint64) device.Status {
	n.w.Helper()
	n.w.until(fmt.Sprintf("completion of send %d", id), func() bool {
		_, ok := n.sends[id]
		return ok
	})
	return n.sends[id]
}

// recv waits for a packet and takes it off the list.
func (n *node) recv() packet {
	n.w.Helper()
	n.w.until("arrival", func() bool { return len(n.recvs) > 0 })
	p := n.recvs[0]
	n.recvs = n.recvs[1:]
	return p
}

// fill makes size bytes that identify themselves: the first eight hold tag and the
// rest follows from it.
func fill(b []byte, tag uint64) []byte {
	x := tag*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, tag)
	}
	return b
}

// tagOf reads the tag that fill wrote and reports whether the rest matches it.
func tagOf(b []byte) (uint64, bool) {
	if len(b) < 8 {
		return 0, false
	}
	tag := binary.LittleEndian.Uint64(b)
	return tag, string(fill(make([]byte, len(b)), tag)) == string(b)
}
