package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// userRecv receives messages without headers straight into the buffers of posted receives, at
// a queue pair of their own that HANDSHAKE tells peers of (user_recv_qp).
//
// Receives are posted to the matcher, as always, and those that nothing there wants go on to
// the device, oldest first. A peer that does not know of the queue pair, or not yet, sends
// ordinary messages, which wait in the matcher: for each of them a receive is taken back from
// the device. A device has no word for that, so the endpoint sends an empty packet to itself
// (a kick), which takes the receive that was posted longest. A receive that is canceled, or
// whose memory is being closed, is taken back in the same way.
type userRecv struct {
	e     *Endpoint
	qp    device.QP
	self  device.AH // of this host, the only one that the queue pair has
	gid   device.GID
	qkey  uint32
	slots []userSlot // by RecvWR.ID
	free  []int

	kicks  int       // under way
	doomed int       // receives with the device that are to end without a message
	bounce device.MR // a packet's room for each slot, where buffers must be registered
	rung   bool      // nothing was posted since the last doorbell
	over   bool
	links  map[userPlace]*peer.Link // those that sent here

	send    device.SendWR
	recv    device.RecvWR
	result  ope.Result // scratch, which a Sink must not keep
	comps   [16]device.Completion
	at, got int // of comps: the next to be dealt with, and their end
}

// userSlot is a receive that the device has.
type userSlot struct {
	o      *ope.Order
	region *mr.Region // in use; nil: none
	copied bool       // it lands in bounce
	err    error      // why it is to end without a message
}

// userPlace is where a packet came from.
type userPlace struct {
	gid device.GID
	qpn uint16
}

const (
	kickDepth = 8 // kicks at a time
	kickMark  = 0x6b69636b
)

// openUser opens the queue pair. Any goroutine.
func openUser(e *Endpoint, info *device.Info, depth int) error {
	u := &userRecv{e: e, gid: info.GID, qkey: e.cfg.ConnID, rung: true, links: make(map[userPlace]*peer.Link)}
	err := device.Guard(func() (err error) {
		u.qp, err = e.cfg.Device.OpenQP(device.QPConfig{
			SQDepth: kickDepth, RQDepth: depth, QKey: u.qkey, UserRecv: true, Notify: e.cfg.Shard.Wake,
		})
		if err != nil {
			return err
		}
		if u.self, err = u.qp.CreateAH(info.GID); err == nil && info.LocalKeys {
			u.bounce, err = e.cfg.Device.Alloc(depth*info.MTU, device.LocalWrite)
		}
		return err
	})
	if err != nil {
		if u.qp != nil {
			_ = device.Guard(u.qp.Close) // the first error says what is wrong
		}
		return fmt.Errorf("open the queue pair for receives: %w", err)
	}
	u.slots = make([]userSlot, depth)
	for i := range u.slots {
		u.free = append(u.free, depth-1-i)
	}
	e.user = u
	e.env.UserQP = &wire.UserRecvQP{QPN: uint32(u.qp.QPN()), QKey: u.qkey}
	e.env.Paths[0].Features.Set(wire.FeatureUserRecvQP)
	return nil
}

// posted is how many receives the device has.
func (u *userRecv) posted() int { return len(u.slots) - len(u.free) }

// Poll takes what has arrived, and gives the device receives, or has it give some back.
func (u *userRecv) Poll(*shard.Shard) int {
	if u.over {
		return 0
	}
	n := 0
	if u.at == u.got { // else a panic has left some
		u.at, u.got = 0, u.qp.Poll(u.comps[:])
	}
	for u.at < u.got && !u.over {
		c := &u.comps[u.at]
		u.at++
		n++
		switch c.Op {
		case device.OpRecv:
			u.onRecv(c)
		case device.OpSend:
			if c.Status != device.StatusOK { // there was no receive any more
				u.kicks--
			}
		case device.OpWritten: // by a peer that takes the queue pair for the other one
			if c.ID < uint64(len(u.slots)) && u.slots[c.ID].o != nil {
				u.givenBack(u.take(int(c.ID)))
			}
		case device.OpFatal:
			u.e.closing.onDeviceDown(fmt.Errorf("the queue pair for receives has ended: %v", c.Status))
		case device.OpRefused, device.OpGone: // the endpoint's own queue pair tells, too
		}
	}
	if u.over {
		return n
	}
	return n + u.fill() + u.kick()
}

// fill gives the device the receives that wait in the matcher.
func (u *userRecv) fill() (n int) {
	for u.doomed == 0 && len(u.free) > 0 {
		r := u.e.table.First(match.Untagged)
		if r == nil {
			break
		}
		u.e.table.RemoveRecv(r)
		u.give(u.e.pools.Orders.At(r.Owner))
		n++
	}
	return n
}

// give posts a receive to the device, which has room.
func (u *userRecv) give(o *ope.Order) {
	i := u.free[len(u.free)-1]
	s := &u.slots[i]
	u.recv = device.RecvWR{ID: uint64(i), Mem: o.Req.Buf}
	if x := u.e.cfg.Regions.Find(o.Req.Buf); x != nil && x.Use() {
		s.region, u.recv.LKey = x, x.LKey(0)
	}
	if u.bounce != nil && (s.region == nil || s.region.Access()&device.LocalWrite == 0) {
		mtu := u.e.env.MTU
		s.copied = true
		u.recv.Mem, u.recv.LKey = u.bounce.Bytes()[i*mtu:(i+1)*mtu], u.bounce.LKey()
	}
	err := u.qp.PostRecvInto(&u.recv)
	u.recv.Mem = nil
	if err != nil {
		s.letGo()
		*s = userSlot{}
		u.e.end(o, fmt.Errorf("%w: post the receive: %w", errno.ErrIO, err))
		return
	}
	s.o, u.rung = o, false
	u.free = u.free[:len(u.free)-1]
}

func (s *userSlot) letGo() {
	if s.region != nil {
		s.region.Done()
	}
}

// kick has the device give back what is wanted back.
func (u *userRecv) kick() (n int) {
	want := min(u.posted(), u.e.table.Waiting(match.Untagged))
	if u.doomed > 0 {
		want = u.posted()
	}
	for want = min(want, kickDepth); u.kicks < want; n++ {
		u.send = device.SendWR{AH: u.self, QPN: u.qp.QPN(), QKey: u.qkey, HasImm: true, Imm: kickMark}
		if u.qp.PostSend(&u.send) != nil {
			break // there is no room yet
		}
		u.kicks++
		u.rung = false
	}
	return n
}

// onRecv ends a receive with a message, or takes it back.
func (u *userRecv) onRecv(c *device.Completion) {
	if c.ID >= uint64(len(u.slots)) || u.slots[c.ID].o == nil {
		return // a driver's fault
	}
	s := u.take(int(c.ID))
	own := c.AH == u.self && c.SrcQPN == u.qp.QPN()
	if own {
		u.kicks--
	}
	n, lost := c.Len, 0
	if s.copied && !own && c.Status == device.StatusOK {
		at := int(c.ID) * u.e.env.MTU
		n = copy(s.o.Req.Buf, u.bounce.Bytes()[at:at+c.Len])
		lost = c.Len - n
	}
	if own {
		u.givenBack(s)
		return
	}
	s.letGo()
	switch {
	case c.Status == device.StatusLocalBadLength:
		u.e.end(s.o, fmt.Errorf("%w: the message is longer than the buffer of %d bytes", errno.ErrTruncated, len(s.o.Req.Buf)))
	case c.Status != device.StatusOK:
		u.e.end(s.o, fmt.Errorf("%w: receive: %v", errno.ErrIO, c.Status))
	default:
		u.received(s.o, c, n, lost)
	}
}

// take takes a receive that the device is done with out of its slot.
func (u *userRecv) take(i int) userSlot {
	s := u.slots[i]
	u.slots[i] = userSlot{}
	u.free = append(u.free, i)
	if s.err != nil {
		u.doomed--
	}
	return s
}

// givenBack ends a receive that no message has taken, or posts it for ordinary messages.
func (u *userRecv) givenBack(s userSlot) {
	s.letGo()
	if s.err != nil {
		u.e.end(s.o, s.err)
	} else if m := u.e.table.Post(&s.o.Recv); m != nil {
		u.e.pools.Rxe(m.Owner).Match(s.o)
	}
}

// received ends a receive with a message of n bytes, and some that had no room.
func (u *userRecv) received(o *ope.Order, c *device.Completion, n, lost int) {
	e, res := u.e, &u.result
	*res = ope.Result{N: n, Lost: lost, Proto: ope.Headerless, HasData: c.HasImm, Data: uint64(c.Imm)}
	if lost > 0 {
		res.Err = &ope.Truncated{Placed: n, Lost: lost}
	}
	at := userPlace{c.SrcGID, c.SrcQPN}
	if c.AH == u.self {
		at.gid = u.gid
	}
	if l := u.link(at); l != nil {
		e.hearOf(l)
		res.Peer, res.From = l.Handle, &l.Addr
	} else {
		addr := wire.MakeRawAddr(at.gid, at.qpn, 0)
		res.Peer, res.From = peer.Unlisted, &addr
	}
	e.pools.Mix.Served[ope.Headerless]++
	e.pools.Tally.Count(ope.KindRecv, uint64(n), res.Err)
	e.env.Trail.Outcome(o.Span, trail.Told, uint64(n), res.Err)
	e.env.Trail.Outcome(o.Span, trail.End, uint64(n), res.Err)
	if s := o.Req.Sink; s != nil {
		s.Done(&o.Req, res)
	}
	e.pools.Orders.Put(o)
}

// link is the peer at a place. It has sent an ordinary packet before: it was told of the
// queue pair in answer to one.
func (u *userRecv) link(at userPlace) *peer.Link {
	l := u.links[at]
	if l != nil {
		if x := u.e.peers.routes.get(l.AH, l.QPN); x != nil && x.cur == l {
			return l
		}
		delete(u.links, at)
	}
	if l = u.e.peers.at(at.gid, at.qpn); l != nil {
		if len(u.links) >= maxEmpty {
			clear(u.links)
		}
		u.links[at] = l
	}
	return l
}

// Flush ends a turn.
func (u *userRecv) Flush(*shard.Shard) {
	if !u.rung && !u.over {
		u.rung = true
		u.qp.Doorbell()
	}
}

// Arm is asked before the shard sleeps.
func (u *userRecv) Arm() bool { return u.over || u.qp.Arm() }

// FDs are the queue pair's.
func (u *userRecv) FDs() []int {
	if u.over {
		return nil
	}
	return u.qp.FDs()
}

// cancel reports whether the device has the receive id, which then ends as soon as the device
// gives it back, or with the message that takes it before.
func (u *userRecv) cancel(id uint64) bool {
	for i := range u.slots {
		if s := &u.slots[i]; s.o != nil && s.o.Req.ID == id {
			u.doom(s, errno.ErrCanceled)
			return true
		}
	}
	return false
}

func (u *userRecv) doom(s *userSlot, err error) {
	if s.err == nil {
		s.err = err
		u.doomed++
	}
}

// revoke does the same with receives in memory that is being closed.
func (u *userRecv) revoke(r *mr.Region) {
	for i := range u.slots {
		s := &u.slots[i]
		if s.o == nil || !ope.Overlap(r.Bytes(), s.o.Req.Buf) {
			continue
		}
		if s.region == nil {
			r.Share() // its end waits for the device
			s.region = r
		}
		u.doom(s, ope.ErrRegionClosed)
	}
}

// stop closes the queue pair, after which the device touches no buffer, and ends the receives.
func (u *userRecv) stop(err error) {
	if u == nil || u.over {
		return
	}
	u.over = true
	u.e.cfg.Shard.RemovePoller(u)
	_ = device.Guard(u.qp.Close) // nothing can be done about an error
	for i := range u.slots {
		s := u.slots[i]
		if s.o == nil {
			continue
		}
		u.slots[i] = userSlot{}
		s.letGo()
		u.e.end(s.o, err)
	}
	if u.bounce != nil {
		_ = device.Guard(u.bounce.Close)
	}
}
