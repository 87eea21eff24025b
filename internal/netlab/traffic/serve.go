package traffic

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// slots is how many blocks of each other host a host has memory for: that many of its
// writes may be under way. The block after them is read by all and never written.
const slots = 4

// host is a process of the test.
type host struct {
	Job
	dev   device.Device
	qp    device.QP
	mem   device.MR
	mtu   int
	peers []*peer // by number; its own is nil
	seen  []Seen  // of each host, also before it is known
	got   [][]bool

	out      *json.Encoder
	scratch  []byte
	comps    [64]device.Completion
	stopping bool
	stopped  bool
	max      time.Duration
}

// Serve is the life of a host: it ends when in does, or with an error.
func Serve(dev device.Device, job Job, in io.Reader, out io.Writer) error {
	if job.Block == 0 {
		job.Block = 32 << 10
	}
	h := &host{Job: job, dev: dev, mtu: dev.Info().MTU, out: json.NewEncoder(out), scratch: make([]byte, 1<<20)}
	h.seen, h.got = make([]Seen, h.Hosts), make([][]bool, h.Hosts)
	if h.Max == 0 {
		h.Max = h.mtu
	}
	err := h.open()
	if err == nil {
		err = h.serve(in)
		if e := h.qp.Close(); err == nil {
			err = e
		}
		_ = h.mem.Close()
	}
	if err != nil {
		_ = h.out.Encode(answer{Error: err.Error()})
	}
	return err
}

func (h *host) open() error {
	const qkey = 0x1234
	qp, err := h.dev.OpenQP(device.QPConfig{QKey: qkey + uint32(h.Host), RNRRetry: 7})
	if err != nil {
		return err
	}
	h.qp = qp
	posts := make([]int32, qp.RecvSlots())
	for i := range posts {
		posts[i] = int32(i)
	}
	qp.PostRecv(posts)
	h.mem, err = h.dev.Alloc((h.Hosts*slots+1)*h.Block, device.LocalWrite|device.RemoteWrite|device.RemoteRead)
	if err != nil {
		return err
	}
	fill(h.fixed(h.mem.Bytes()), tag(h.Host, h.Host, 0))
	return h.out.Encode(answer{Place: &Place{
		GID: h.dev.Info().GID, QPN: qp.QPN(), QKey: qkey + uint32(h.Host), RKey: h.mem.RKey(), Base: h.mem.Addr(),
	}})
}

// fixed is the block that is read.
func (h *host) fixed(mem []byte) []byte { return mem[h.Hosts*slots*h.Block:] }

// block is where from writes its s-th block.
func (h *host) block(from, s int) int { return (from*slots + s) * h.Block }

func (h *host) serve(in io.Reader) error {
	orders := make(chan order)
	go func() {
		defer close(orders)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var o order
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				orders <- o
			}
		}
	}()
	for {
		select {
		case o, ok := <-orders:
			if !ok {
				return nil
			}
			if err := h.obey(o); err != nil {
				return err
			}
		default:
		}
		if err := h.turn(); err != nil {
			return err
		}
	}
}

func (h *host) obey(o order) error {
	switch {
	case o.Stop:
		h.stopping = true
	case o.Report:
		return h.report()
	case len(o.Peers) != h.Hosts:
		return fmt.Errorf("%d peers for %d hosts", len(o.Peers), h.Hosts)
	default:
		for i, at := range o.Peers {
			if i == h.Host {
				h.peers = append(h.peers, nil)
				continue
			}
			ah, err := h.qp.CreateAH(at.GID)
			if err != nil {
				return err
			}
			h.peers = append(h.peers, newPeer(h, i, at, ah))
		}
	}
	return nil
}

// turn posts, polls, and waits a little if there was nothing.
func (h *host) turn() error {
	idle := true
	for _, p := range h.peers {
		if p == nil {
			continue
		}
		posted, err := p.post()
		if err != nil {
			return err
		}
		idle = idle && !posted
	}
	h.qp.Doorbell()
	n := h.qp.Poll(h.comps[:])
	for i := range h.comps[:n] {
		if err := h.take(&h.comps[i]); err != nil {
			return err
		}
	}
	if len(h.peers) > 0 && !h.stopped && h.finished() {
		h.stopped = true
		return h.out.Encode(answer{Stopped: true})
	}
	if idle && n == 0 && h.qp.Arm() {
		h.rest()
	}
	return nil
}

// rest waits for the device, but not for long: orders come, too.
func (h *host) rest() {
	const atMost = 10 * time.Millisecond
	if fds := h.qp.FDs(); len(fds) > 0 {
		sys.WaitEvent(fds[0], atMost) // of packets; another is a timer
	} else {
		<-clock.NewTimer(atMost).C
	}
}

func (h *host) finished() bool {
	for _, p := range h.peers {
		if p != nil && !p.finished() {
			return false
		}
	}
	return true
}

func (h *host) take(c *device.Completion) error {
	switch c.Op {
	case device.OpSend:
		p := h.peers[c.ID>>32]
		return p.ended(uint32(c.ID), c.Status)
	case device.OpRecv:
		err := h.arrived(h.qp.RecvBytes(int(c.ID))[:c.Len])
		h.qp.PostRecv([]int32{int32(c.ID)})
		return err
	case device.OpWritten:
		if c.ID != device.NoSlot {
			h.qp.PostRecv([]int32{int32(c.ID)})
		}
	case device.OpRefused:
		return fmt.Errorf("refused access of %d", c.SrcQPN)
	case device.OpFatal:
		return fmt.Errorf("the queue pair has ended: %v", c.Status)
	case device.OpGone, device.OpPlaced: // the one is expected, the other never asked for
	}
	return nil
}

// arrived notes a packet.
func (h *host) arrived(b []byte) error {
	t, ok := tagOf(b, h.scratch)
	from, to, number := int(t>>56), int(t>>48&0xff), int(t&(1<<48-1))
	if from >= h.Hosts || from == h.Host || to != h.Host || number > 1<<24 {
		return fmt.Errorf("packet from nowhere: tag %#x of %d bytes", t, len(b))
	}
	for len(h.got[from]) <= number {
		h.got[from] = append(h.got[from], false)
	}
	switch {
	case !ok:
		h.seen[from].Corrupt++
	case h.got[from][number]:
		h.seen[from].Twice++
	}
	h.got[from][number] = true
	return nil
}

func (h *host) report() error {
	r := &Report{MaxMS: h.max.Milliseconds(), Peers: make([]Seen, h.Hosts)}
	for i, p := range h.peers {
		if p == nil {
			continue
		}
		seen := &h.seen[i]
		seen.Sent, seen.Got, seen.BadSlots = rangesOf(p.sent), rangesOf(h.got[i]), 0
		for s := range slots {
			b := h.mem.Bytes()[h.block(i, s):][:h.Block]
			if t, ok := tagOf(b, h.scratch); !ok || t != tag(i, h.Host, lastBlock+s) {
				seen.BadSlots++
			}
		}
		r.Peers[i] = *seen
	}
	return h.out.Encode(answer{Report: r})
}
