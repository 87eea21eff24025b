package multi

import (
	"errors"
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// QP is a queue pair on each of several devices; it implements [device.QP]. One shard
// calls its methods.
type QP struct {
	device.QPBase
	dev   *Device
	subs  []sub
	paths []device.Path
	slots int
	fds   []int
	ahs   handles

	turn   int  // which path the next Poll begins with
	alone  int  // polls of the best path alone, all others being left out, if positive
	dead   bool // a path has failed: OpFatal was polled
	closed bool
}

// sub is the queue pair on one device.
type sub struct {
	device.QP
	base   int // its first slot's number here
	slots  int
	own    []device.AH // our handle, by its; UnknownAH: there is none
	batch  []int32     // scratch of PostRecv
	posted bool        // since the last doorbell
	empty  int         // polls without anything
	rest   int         // polls that it is left out of, if positive
}

var _ device.QP = (*QP)(nil)

// OpenQP implements device.Device. If the caller requests a queue pair number, it is
// used on every device, unless QPNs says which on each.
func (d *Device) OpenQP(c device.QPConfig) (device.QP, error) {
	if err := device.Check(d.info, c); err != nil {
		return nil, err
	}
	if err := d.users.Acquire(); err != nil {
		return nil, err
	}
	q := &QP{dev: d}
	for i, x := range d.devs {
		if c.QPNs != nil {
			c.QPN = c.QPNs[i]
		}
		sc := c
		if c.Resent != nil {
			sc.Resent = func(wr *device.SendWR) {
				own := *wr
				own.AH = q.subs[i].own[wr.AH]
				c.Resent(&own)
			}
		}
		if c.Place != nil {
			sc.Place = func(ah device.AH, qpn uint16, head []byte, size int) ([]byte, bool) {
				own := q.subs[i].own
				if int(ah) >= len(own) || own[ah] == device.UnknownAH {
					return nil, false
				}
				return c.Place(own[ah], qpn, head, size)
			}
		}
		qp, err := x.OpenQP(sc)
		if err != nil {
			err = errors.Join(err, q.closeSubs())
			d.users.Release()
			return nil, err
		}
		n := qp.RecvSlots()
		q.subs = append(q.subs, sub{QP: qp, base: q.slots, slots: n, batch: make([]int32, 0, n)})
		q.slots += n
		q.paths = append(q.paths, device.Path{Info: d.infos[i], QPN: qp.QPN()})
	}
	return q, nil
}

// SetRNRRetry implements device.QP.
func (q *QP) SetRNRRetry(n uint8) error {
	var errs []error
	for i := range q.subs {
		errs = append(errs, q.subs[i].SetRNRRetry(n))
	}
	return errors.Join(errs...)
}

// QPN implements device.QP: the first path's.
func (q *QP) QPN() uint16 { return q.paths[0].QPN }

// Paths implements device.QP.
func (q *QP) Paths() []device.Path { return q.paths }

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	h := q.ahs.get(wr.AH)
	if h == nil || q.dead {
		if q.closed || q.dead {
			return device.ErrClosed
		}
		return device.ErrBadAH
	}
	s, own := &q.subs[h.path], wr.AH
	wr.AH = h.sub
	err := s.PostSend(wr)
	wr.AH = own
	if err != nil {
		return err
	}
	q.paths[h.path].Stats.Posted(wr)
	if !wr.Over {
		s.posted = true
	}
	return nil
}

// RecvSlots implements device.QP: those of all paths, one after the other.
func (q *QP) RecvSlots() int { return q.slots }

// RecvBytes implements device.QP.
func (q *QP) RecvBytes(slot int) []byte {
	if s := q.slotOf(slot); s != nil {
		return s.RecvBytes(slot - s.base)
	}
	return nil
}

// slotOf is the path that a slot belongs to; nil if there is no such slot.
func (q *QP) slotOf(slot int) *sub {
	for i := range q.subs {
		if s := &q.subs[i]; uint(slot-s.base) < uint(s.slots) {
			return s
		}
	}
	return nil
}

// PostRecv implements device.QP.
func (q *QP) PostRecv(slots []int32) {
	if q.dead {
		return
	}
	for _, n := range slots {
		if s := q.slotOf(int(n)); s != nil {
			s.batch = append(s.batch, n-int32(s.base))
		}
	}
	for i := range q.subs {
		if s := &q.subs[i]; len(s.batch) > 0 {
			s.PostRecv(s.batch)
			s.batch, s.posted = s.batch[:0], true
		}
	}
}

// Lend implements device.QP.
func (q *QP) Lend(path uint8, lkey uint32, mem []byte) (uint64, error) {
	return q.subs[path].Lend(0, lkey, mem)
}

// Return implements device.QP.
func (q *QP) Return(path uint8, rkey uint64) { q.subs[path].Return(0, rkey) }

// LendPlain implements device.QP.
func (q *QP) LendPlain(ah device.AH, qpn uint16, mem []byte) (rkey, addr uint64, err error) {
	if h := q.ahs.get(ah); h != nil {
		return q.subs[h.path].LendPlain(h.sub, qpn, mem)
	}
	return 0, 0, device.ErrBadAH
}

// Relend implements device.QP.
func (q *QP) Relend(path uint8, rkey uint64, mem []byte) error {
	return q.subs[path].Relend(0, rkey, mem)
}

// Pulse implements device.QP.
func (q *QP) Pulse(ah device.AH, qpn uint16) (uint32, bool) {
	if h := q.ahs.get(ah); h != nil {
		return q.subs[h.path].Pulse(h.sub, qpn)
	}
	return 0, false
}

// HoldBack implements device.QP.
func (q *QP) HoldBack(ah device.AH, qpn uint16, on bool, turn uint32) error {
	if h := q.ahs.get(ah); h != nil {
		return q.subs[h.path].HoldBack(h.sub, qpn, on, turn)
	}
	return device.ErrBadAH
}

// Shut implements device.QP.
func (q *QP) Shut(ah device.AH, qpn uint16, qkey uint32) error {
	if h := q.ahs.get(ah); h != nil {
		return q.subs[h.path].Shut(h.sub, qpn, qkey)
	}
	return device.ErrBadAH
}

// Why implements device.QP.
func (q *QP) Why(ah device.AH) error {
	if h := q.ahs.get(ah); h != nil {
		return q.subs[h.path].Why(h.sub)
	}
	return nil
}

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	if q.dead {
		return
	}
	for i := range q.subs {
		if s := &q.subs[i]; s.posted {
			s.posted = false
			s.Doorbell()
		}
	}
}

// A path other than the best that found nothing in quiet polls is left out of nap polls
// each time, since polling it costs as much as polling one that has something. A
// completion of another path counts like a poll: compared with the work that it causes,
// polling costs little.
const (
	quiet = 64
	nap   = 15
)

// Poll implements device.QP. When c is short the paths take turns at being first, so
// that none starves.
func (q *QP) Poll(c []device.Completion) int {
	if q.dead {
		return 0
	}
	if q.alone <= 0 {
		return q.pollAll(c)
	}
	s := &q.subs[0]
	n := s.Poll(c)
	if q.alone -= 1 + n; n > 0 {
		n, q.dead = s.translate(c[:n], &q.paths[0].Stats)
	}
	return n
}

func (q *QP) pollAll(c []device.Completion) int {
	n, i := 0, q.turn
	q.alone = nap
	for range q.subs {
		switch s := &q.subs[i]; {
		case s.rest > 0:
			s.rest -= 1 + n
		case n < len(c): // without room nothing is known; the path is the first soon
			if got := s.Poll(c[n:]); got > 0 {
				got, q.dead = s.translate(c[n:n+got], &q.paths[i].Stats)
				if n += got; q.dead {
					return n
				}
				s.empty = 0
			} else if i > 0 {
				s.foundNothing()
			}
		}
		if i > 0 {
			q.alone = min(q.alone, q.subs[i].rest)
		}
		if i++; i == len(q.subs) {
			i = 0
		}
	}
	for i := range q.subs[1:] {
		q.subs[1+i].rest -= max(q.alone, 0) // which pass without them
	}
	if n == len(c) {
		if q.turn++; q.turn == len(q.subs) {
			q.turn = 0
		}
	}
	return n
}

// foundNothing notes that a path that may rest found nothing.
func (s *sub) foundNothing() {
	if s.empty++; s.empty > quiet {
		s.rest = nap
	}
}

// translate converts a path's completions to our numbers, up to the one that says that it has
// failed, if it has. It returns how many that are, and counts the packets among them.
func (s *sub) translate(c []device.Completion, count *device.PathStats) (n int, failed bool) {
	for i := range c {
		e := &c[i]
		if e.Op == device.OpSend {
			continue
		}
		switch {
		case e.Op == device.OpFatal:
			return i + 1, true
		case e.Op != device.OpRecv && e.Op != device.OpPlaced && e.Op != device.OpWritten:
		case e.ID < uint64(s.slots):
			e.ID += uint64(s.base)
			if e.Op != device.OpWritten && e.Status == device.StatusOK && e.Len >= 0 {
				count.Received(e.Len)
			}
		default:
			e.ID = device.NoSlot // of a receive: the driver's fault, and not a slot
		}
		if int(e.AH) < len(s.own) {
			e.AH = s.own[e.AH]
		} else {
			e.AH = device.UnknownAH
		}
	}
	return len(c), false
}

// Arm implements device.QP.
func (q *QP) Arm() bool {
	if q.dead {
		return true // there is nothing to poll for
	}
	for i := range q.subs {
		q.subs[i].rest, q.alone = 0, 0
		if !q.subs[i].Arm() {
			return false
		}
	}
	return true
}

// FDs implements device.QP.
func (q *QP) FDs() []int {
	q.fds = q.fds[:0]
	for i := range q.subs {
		q.fds = append(q.fds, q.subs[i].FDs()...)
	}
	return q.fds
}

// Close implements device.QP.
func (q *QP) Close() error {
	if q.closed {
		return device.ErrClosed
	}
	q.closed = true
	err := q.closeSubs()
	q.dev.users.Release()
	return err
}

func (q *QP) closeSubs() error {
	var errs []error
	for i := range q.subs {
		errs = append(errs, q.subs[i].QP.Close())
	}
	return errors.Join(errs...)
}

// handles are a queue pair's address handles: numbers of our own, dense, the lowest
// free one first, each for a handle of one path.
type handles struct {
	list []handle
	free int // entries without users
}

// handle is an address handle of a path's queue pair.
type handle struct {
	sub  device.AH
	path uint8
	refs int
}

// get returns the handle of ah, nil if there is none.
func (t *handles) get(ah device.AH) *handle {
	if int(ah) < len(t.list) && t.list[ah].refs > 0 {
		return &t.list[ah]
	}
	return nil
}

// next is the number that the next handle gets, UnknownAH if all are taken.
func (t *handles) next() device.AH {
	if t.free > 0 {
		return device.AH(slices.IndexFunc(t.list, func(h handle) bool { return h.refs == 0 }))
	}
	if len(t.list) >= int(device.UnknownAH) {
		return device.UnknownAH
	}
	t.list = append(t.list, handle{})
	t.free++
	return device.AH(len(t.list) - 1)
}

// CreateAH implements device.QP. The path is that of the first device that reaches gid.
// A GID that none reaches goes to the last device, which has the widest reach and
// refuses it.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	i := q.dev.reaching(gid)
	if i < 0 {
		i = len(q.subs) - 1
	}
	return q.CreateAHOn(uint8(i), gid)
}

// CreateAHOn is CreateAH on a path of the caller's choice.
func (q *QP) CreateAHOn(path uint8, gid device.GID) (device.AH, error) {
	s := &q.subs[path]
	ah, err := s.CreateAH(gid)
	if err != nil {
		return device.UnknownAH, err
	}
	for int(ah) >= len(s.own) {
		s.own = append(s.own, device.UnknownAH)
	}
	if own := s.own[ah]; own != device.UnknownAH {
		q.ahs.list[own].refs++
		return own, nil
	}
	own := q.ahs.next()
	if own == device.UnknownAH {
		_ = s.DestroyAH(ah) // it was made just now
		return own, device.ErrNoMemory
	}
	q.ahs.list[own] = handle{sub: ah, path: path, refs: 1}
	q.ahs.free--
	s.own[ah] = own
	return own, nil
}

// DestroyAH implements device.QP.
func (q *QP) DestroyAH(ah device.AH) error {
	h := q.ahs.get(ah)
	if h == nil {
		if q.closed {
			return device.ErrClosed
		}
		return device.ErrBadAH
	}
	s := &q.subs[h.path]
	if err := s.DestroyAH(h.sub); err != nil {
		return err
	}
	if h.refs--; h.refs == 0 {
		s.own[h.sub] = device.UnknownAH
		q.ahs.free++
	}
	return nil
}

// PathOf implements device.QP.
func (q *QP) PathOf(ah device.AH) int {
	if h := q.ahs.get(ah); h != nil {
		return int(h.path)
	}
	return 0
}
