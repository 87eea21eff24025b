package endpoint

import (
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
)

// multiRecvs gives messages to the receives that are not for one message of a known size: buffers
// for many, and those that want no message longer than their buffer. It owns the messages that
// have their place in a buffer and wait for room in the queue of outcomes: they are kept as
// unexpected ones are, and count as such. Accept, onRecv, bind and unpark call it.
type multiRecvs struct {
	pools  *ope.Pools
	table  *match.Table // from the endpoint's start
	claims *claims
	end    func(*ope.Entry, error)

	placed []placedMsg // oldest first
	first  int         // those before it are done with
	round  uint64      // receives with the flag Sized that are older are recalled
}

// placedMsg is a message that has its place in a buffer, and no place for its outcome yet.
type placedMsg struct {
	claim
	part  *ope.Entry
	multi *ope.MultiRecv
}

// multiFlags are the flags of the receives that multiRecvs handles.
const multiFlags = ope.Multi | ope.Sized

// match gives a message to the receive o, which the matcher has found, or, if its buffer has too
// little room left, to the next that takes it: that buffer is given back. m is the message's
// entry in the matcher, nil if it is not there. False: no receive takes it now, and nothing
// has happened to it.
func (c *multiRecvs) match(x *ope.Rxe, o *ope.Entry, m *match.Msg) bool {
	for o.Multi != nil && !o.Multi.Fits(x.Size()) {
		c.table.RemoveRecv(&o.Recv)
		o.Multi.Close(nil)
		r := c.table.Arrive(x.Key())
		if r == nil {
			return false
		}
		o = c.pools.Entries.At(r.Owner)
	}
	if m != nil {
		c.table.RemoveMsg(m)
	}
	switch {
	case o.Multi != nil:
		c.place(x, o)
	case o.Req.Flags&ope.Sized != 0:
		c.matchSized(x, o)
	default:
		x.Match(o)
	}
	return true
}

// post begins a receive with one of multiFlags. False: it has ended.
func (c *multiRecvs) post(o *ope.Entry) bool {
	if c.recalled(&o.Req) {
		c.endRecalled(o)
		return false
	}
	o.Recv.Many = o.Req.Flags&ope.Multi != 0
	return !o.Recv.Many || c.open(o)
}

// open begins a receive of many messages, and gives it those that wait for it. False: it has
// ended.
func (c *multiRecvs) open(o *ope.Entry) bool {
	sink, ok := o.Req.Sink.(ope.MultiRecvSink)
	if !ok {
		c.end(o, errno.ErrInvalid)
		return false
	}
	o.MultiRecv(c.pools, sink)
	for {
		m := c.table.Find(o.Recv.Kind, o.Recv.Tag, o.Recv.Ignore, o.Recv.Source)
		if m == nil {
			return true
		}
		x := c.pools.Rxe(m.Owner)
		if !o.Multi.Fits(x.Size()) {
			o.Multi.Close(nil)
			return false
		}
		c.table.RemoveMsg(m)
		if c.place(x, o) {
			return false
		}
	}
}

// place gives a message, which is in the matcher no more, its place in o's buffer. True: the
// buffer takes no more.
func (c *multiRecvs) place(x *ope.Rxe, o *ope.Entry) (full bool) {
	multi := o.Multi
	part, full := multi.Place(x.Size())
	if full {
		c.table.RemoveRecv(&o.Recv)
		multi.Close(nil) // not before the part ends
	}
	if len(c.placed) == 0 && multi.Room() {
		x.Match(part)
		return full
	}
	if x.Fresh() {
		x.Unexpected()
	}
	c.placed = append(c.placed, placedMsg{claim{x, x.Claim(), x.Link()}, part, multi})
	return full
}

// resume receives the placed messages for whose outcome there is room by now.
func (c *multiRecvs) resume() {
	for c.first < len(c.placed) && c.placed[c.first].multi.Room() {
		b := c.placed[c.first]
		c.placed[c.first] = placedMsg{}
		c.first++
		if b.rxe.Is(b.use) {
			b.rxe.Match(b.part)
		} else { // its peer has failed, and a part of it was yet to come
			c.end(b.part, b.lost())
		}
	}
	if 2*c.first >= len(c.placed) { // so that each is moved once
		n := copy(c.placed, c.placed[c.first:])
		clear(c.placed[n:])
		c.placed, c.first = c.placed[:n], 0
	}
}

// drop forgets the placed messages, since the endpoint ends.
func (c *multiRecvs) drop() {
	for _, b := range c.placed[c.first:] {
		b.multi.Forget(b.part)
	}
	c.placed, c.first = nil, 0
}

// revoke sees to it that placed messages do not go into a region that is being closed: they will
// be cut off.
func (c *multiRecvs) revoke(r *mr.Region) {
	for i := c.first; i < len(c.placed); i++ {
		if q := &c.placed[i].part.Req; ope.Overlap(r.Bytes(), q.Buf) {
			q.Buf = nil
		}
	}
}

// matchSized gives a message to a receive with the flag Sized.
func (c *multiRecvs) matchSized(x *ope.Rxe, o *ope.Entry) {
	if x.IsHere(len(o.Req.Buf)) {
		x.Match(o)
		return
	}
	if x.Fresh() {
		x.Unexpected()
	}
	c.claims.keep(o.Req.ID, x)
	res := &c.claims.result
	x.Describe(res)
	res.N = ^res.N
	c.pools.Hand(o, res)
}

// recalled reports whether r has the flag Sized and does not know what was left since.
func (c *multiRecvs) recalled(r *ope.Request) bool { return r.Flags&ope.Sized != 0 && r.Data < c.round }

// endRecalled ends a receive that is recalled, and not in the matcher.
func (c *multiRecvs) endRecalled(o *ope.Entry) {
	res := &c.claims.result
	*res = ope.Result{N: ope.Recalled, Peer: o.Req.Peer}
	c.pools.Hand(o, res)
}
