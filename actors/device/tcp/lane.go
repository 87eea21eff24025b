package tcp

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/wire"
)

// laneState is the state of a connection.
type laneState uint8

const (
	laneConnecting       laneState = iota // dialed; the stream is not there yet
	laneAwaitingGreeting                  // dialed; the other side's greeting has not arrived
	laneCheckingUID                       // the other side's user is being looked up
	laneAwaitingReply                     // dialed; our preamble is on its way, or was not answered yet
	laneAccepted                          // accepted; its preamble has not arrived yet
	laneUp                                // part of a session
	laneClosing                           // refused: to be closed when the reply is written
	laneClosed
)

// lane is one connection. It belongs to the port's shard.
type lane struct {
	p        *port
	s        *session // nil: it has none yet
	no       uint8    // in the session
	id       int32    // in the port's table
	state    laneState
	peer     device.GID // of the socket
	accepted bool       // false: dialed
	idle     idleLink   // of those without a session
	uidQuery *uidQuery  // laneCheckingUID

	sock socket // while connecting
	st   stream // afterwards

	// The state reported by the network, and found by reading and writing since.
	readable, writable, ended bool
	failed                    error // of writing
	writeQueued, readQueued   bool  // in toWrite and toRead of the port's readyList
	delayed                   uint8 // statuses in out that may wait, while writeQueued is false
	statusDue                 int   // the poll until which the first of them may
	statusQueued              bool  // in its statuses

	handshake      [preambleLen]byte // a preamble, or the reply to one, as far as it came
	handshakeN     int
	unsentPreamble []byte // the rest of our preamble, dialed

	in   []byte // came and was not parsed: in[r:w]
	r, w int
	sink sink
	late bool // the frame at in[r:] waits until what arrived was polled
	out  out

	tooManyWrongKeys bool // it names keys that are none

	bye    bool  // the other side said bye, or closed after a bye on another lane
	under  int   // own requests that are in progress on it
	age    uint8 // ticks while it is set up, or closing
	heard  bool  // something was received since the last tick
	silent uint8 // ticks without
	pinged bool
	acked  uint64 // of sent, at the last tick
	sent   uint64 // bytes that the stream took
}

// sink is the destination of the present frame's bytes.
type sink struct {
	left  int
	kind  kind // kindWrite, kindData, kindSend
	frame frame
	slot  int32  // a slot that was taken for the immediate, or a packet's headers, or -1
	head  int    // kindSend: bytes of the headers, which are in the slot
	ok    bool   // kindWrite, kindSend: they are to be written, and kept
	dst   []byte // kindData: the rest; kindSend: the place, to be asked for again before it is used
}

// newLane takes a place in the table of connections.
func (p *port) newLane(state laneState, peer device.GID) *lane {
	l := &lane{p: p, state: state, peer: peer, sock: noSocket, sink: sink{slot: -1}}
	if n := len(p.free); n > 0 {
		l.id, p.free = p.free[n-1], p.free[:n-1]
	} else {
		l.id = int32(len(p.conns))
		p.conns = append(p.conns, connSlot{})
	}
	c := &p.conns[l.id]
	c.l = l
	c.gen++
	p.setTick(true)
	return l
}

// wrap makes a stream of a lane's connected socket.
func (p *port) wrap(l *lane, s socket) error {
	c := conn{
		dialed: l.state == laneConnecting, self: wire.MakeRawAddr(p.self.gid, p.self.qpn, p.qkey),
		peer: l.peer, cfg: &p.dev.cfg,
		ring: func() { p.bell.ring(l) }, running: &p.running,
	}
	if c.dialed {
		c.peerQPN = l.s.r.at.qpn
	}
	l.sock = noSocket
	st, err := p.net.stream(l, s, c)
	if st != nil {
		l.st = st
	}
	return err
}

// join makes an accepted connection part of a session.
func (l *lane) join(s *session, no uint8) {
	l.p.acceptor.idle.remove(l)
	l.s, l.no = s, no
	s.lanes[no] = l
	l.rise()
}

// rise makes a lane part of its session.
func (l *lane) rise() {
	l.state, l.age = laneUp, 0
	l.p.refusals.forget(l.peer)
	l.heard = true
	l.p.ready.queueWrite(l)
}

const (
	inBytes    = 64 << 10  // read at once
	readBudget = 512 << 10 // of one lane in one turn
	writeTurn  = 512 << 10 // to one lane in one call
	writeTurns = 4         // calls for one lane in one turn
)

// read takes the bytes that have arrived, within a budget.
func (l *lane) read() {
	if l.late {
		l.late = false
		l.take()
	}
	for budget := readBudget; l.readable && !l.late && budget > 0 && l.state != laneCheckingUID; {
		n, asked, err := l.readOnce()
		budget -= n
		switch {
		case l.state == laneClosed:
			return
		case err == nil && (n == asked || n > 0 && l.ended):
			continue
		}
		if err != nil && l.late { // what came with the end is read first
			break
		}
		l.readable = false
		if err == nil && n == 0 {
			err = l.failed
		}
		if err != nil {
			if l.failed != nil {
				err = l.failed
			}
			l.p.broken(l, err)
			return
		}
	}
	if (l.readable || l.late) && l.state != laneClosed && l.state != laneCheckingUID {
		l.p.ready.queueRead(l)
	}
}

// take parses what is in l.in.
func (l *lane) take() {
	if err := l.parse(); err != nil && l.state != laneClosed {
		l.p.violated(l, err)
	}
}

// readOnce makes one call for bytes and processes them.
func (l *lane) readOnce() (n, asked int, err error) {
	switch l.state {
	case laneUp:
	case laneClosing: // of no interest
		n, err = l.st.readv(nil, l.p.trash[:])
		return n, len(l.p.trash), err
	default:
		return l.readHandshake()
	}
	if l.in == nil {
		l.in = make([]byte, inBytes+maxLen+l.p.dev.cfg.MTU)
	}
	if l.r == l.w {
		l.r, l.w = 0, 0
	} else if len(l.in)-l.w < inBytes/2 {
		l.w = copy(l.in, l.in[l.r:l.w])
		l.r = 0
	}
	var dst []byte
	var hold *nic.Region
	if l.sink.left > 0 {
		dst, hold = l.sinkBytes()
	}
	more := l.in[l.w:]
	if len(dst) < l.sink.left {
		more = nil // what comes behind dst belongs there, too
	}
	n, err = l.st.readv(dst, more)
	if hold != nil {
		hold.Release()
	}
	if n > 0 {
		l.heard = true
		k := min(n, len(dst))
		l.w += n - k
		if k > 0 {
			l.drained(k)
		}
		l.take()
	}
	return n, len(dst) + len(more), err
}

// parse takes the frames that are in l.in.
func (l *lane) parse() error {
	for l.state == laneUp {
		if l.sink.left > 0 && l.r < l.w {
			l.fill()
		}
		if l.sink.left > 0 || l.r == l.w {
			return nil
		}
		var f frame
		n, err := f.parse(l.in[l.r:l.w], l.p.dev.cfg.MTU)
		if err != nil || n == 0 {
			return err
		}
		if f.kind == kindSend {
			rest := l.in[l.r+n : l.w]
			switch k := l.placed(&f, rest); {
			case l.late:
				return nil
			case k > 0:
				l.r += n + k
				continue
			case len(rest) < f.length:
				return nil
			}
		}
		if err := l.onFrame(&f, l.in[l.r+n:l.w]); err != nil {
			return err
		}
		l.r += n
		if f.kind == kindSend {
			l.r += f.length
		}
	}
	return nil
}

// fill moves the bytes in l.in to the sink.
func (l *lane) fill() {
	for l.sink.left > 0 && l.r < l.w {
		dst, hold := l.sinkBytes()
		n := copy(dst, l.in[l.r:l.w])
		if hold != nil {
			hold.Release()
		}
		l.r += n
		l.drained(n)
	}
}

// sinkBytes is where the next bytes go: in a region, which must be released then; in
// the memory of a request of ours; or, if they are not wanted, into scratch memory.
func (l *lane) sinkBytes() ([]byte, *nic.Region) {
	k := &l.sink
	switch {
	case k.kind == kindData:
		return k.dst, nil
	case k.ok && k.kind == kindSend:
		if dst, _ := l.placeOf(&k.frame, l.p.inbox.slot(k.slot, k.head)); len(dst) == len(k.dst) && &dst[0] == &k.dst[0] {
			return dst[len(dst)-k.left:], nil
		}
		k.ok = false // its message is not wanted anymore
	case k.ok:
		at := k.frame.addr + uint64(k.frame.length-k.left)
		if r, b := l.p.dev.regions.Hold(k.frame.rkey, at, k.left, device.RemoteWrite); r != nil {
			return b, r
		}
		k.ok = false // closed meanwhile
	}
	return l.p.trash[:min(k.left, len(l.p.trash))], nil
}

// drained counts n bytes that reached the sink.
func (l *lane) drained(n int) {
	k := &l.sink
	k.left -= n
	if k.kind == kindData {
		k.dst = k.dst[n:]
	}
	if k.left == 0 {
		l.onSunk()
		k.dst = nil
	}
}

// write hands pending output to the stream as far as it has room. What stays is copied.
func (l *lane) write() {
	l.writeOut()
	l.out.settle()
}

func (l *lane) writeOut() {
	switch l.state {
	case laneAwaitingReply:
		l.writePreamble()
		return
	case laneUp, laneAccepted, laneClosing:
	default:
		return
	}
	p := l.p
	l.delayed = 0
	for i := 0; l.out.size > 0 && l.writable; i++ {
		if i == writeTurns {
			p.ready.queueWrite(l) // others are waiting, too
			return
		}
		vec, held, total := l.out.gather(p.vec[:0], p.held[:0], p.dev.regions, writeTurn)
		n, err := l.st.writev(vec)
		for _, r := range held {
			r.Release()
		}
		clear(vec)
		clear(held)
		if err != nil {
			l.cannotWrite(err)
			return
		}
		l.out.wrote(n)
		l.sent += uint64(n)
		if n < total {
			l.writable = false
		}
	}
	if l.out.size == 0 && l.state == laneClosing {
		l.st.shut()
		l.drain()
		p.closeLane(l)
	}
}

// hasRoom notes that the stream may take bytes. If it has refused some before, the output is written.
func (l *lane) hasRoom() {
	if l.writable {
		return
	}
	l.writable = true
	if l.out.size > 0 || len(l.unsentPreamble) > 0 {
		l.p.ready.queueWrite(l)
	}
}

// cannotWrite has what has arrived read first, perhaps the reason.
func (l *lane) cannotWrite(err error) {
	l.writable, l.readable, l.ended, l.failed = false, true, true, err
	l.p.ready.queueRead(l)
}

// drain reads and discards what has arrived: otherwise the kernel would answer it
// with a reset, which could overtake the bye.
func (l *lane) drain() {
	for range 64 {
		if n, err := l.st.readv(nil, l.p.trash[:]); n == 0 || err != nil {
			return
		}
	}
}

// wrongKey counts a request that names a key that is none here, and was none lately. The
// same one again teaches nobody anything: it is the mistake of an honest peer, who has many
// requests under way.
func (l *lane) wrongKey(key uint64) {
	r := l.s.r
	if r.hasWrongKey && r.wrongKey == key {
		return
	}
	l.p.dev.stats.guesses.Add(1)
	r.wrongKey, r.hasWrongKey = key, true
	l.tooManyWrongKeys = l.p.dev.keyGuard.countWrong(r.at.gid)
}

// untrusted tells the operator, on either side, of a connection that ended because of
// credentials. The error of crypto/tls or crypto/x509 says what is wrong.
func (l *lane) untrusted(why error) {
	p := l.p
	if p.dev.cfg.Credentials == nil || reset(why) || isErrno(why) || errors.Is(why, errSilent) || errors.Is(why, errBrokenOff) {
		return
	}
	p.dev.stats.untrusted.Add(1)
	p.warnLog.warn("tcp: no TLS connection", "address", AddrOf(l.peer), "dialed", !l.accepted, "why", why)
}

// closeLane closes a connection. It does not deal with the requests on it.
func (p *port) closeLane(l *lane) {
	if l.state == laneClosed {
		return
	}
	l.state = laneClosed
	l.readable, l.writable = false, false
	if l.sock != noSocket {
		p.net.abandon(l)
		l.sock = noSocket
	}
	if l.st != nil {
		p.net.closeStream(l.st)
	}
	if l.sink.slot >= 0 {
		p.inbox.giveBack(l.sink.slot)
	}
	l.sink = sink{slot: -1}
	l.out.reset()
	l.out, l.in = out{}, nil
	p.conns[l.id].l = nil
	p.free = append(p.free, l.id)
	if l.accepted {
		p.acceptor.forget(l)
	}
	if l.uidQuery != nil {
		l.uidQuery.over.Store(true)
		l.uidQuery = nil
	}
}

func (l *lane) onTick() {
	p := l.p
	if !l.heard {
		l.lookAgain()
	}
	if l.state != laneUp {
		if l.age++; l.age > lostAfter {
			p.broken(l, errSilent)
		}
		return
	}
	if l.heard || l.progressed() {
		l.heard, l.pinged, l.silent = false, false, 0
		return
	}
	// Silence does not matter while no answer is awaited.
	if l.no != 0 && l.under == 0 && !l.s.leaving {
		l.silent, l.pinged = 0, false
		return
	}
	l.silent++
	switch {
	case l.silent >= lostAfter:
		p.broken(l, errSilent)
	case l.silent >= pingAfter && !l.pinged:
		l.pinged = true
		l.answer(&frame{kind: kindPing, token: l.s.num})
	}
}

// lookAgain reads and writes once more, without an event: none comes after a call that failed for
// want of memory.
func (l *lane) lookAgain() {
	if l.state == laneConnecting || l.state == laneCheckingUID {
		return
	}
	l.readable, l.writable = true, true
	l.p.ready.queueWrite(l)
	l.p.ready.queueRead(l)
}

// progressed reports whether the other host has acknowledged bytes since the last tick, but
// not all: a long transfer over a slow path delays a ping. That a ping itself was
// acknowledged says nothing about the process that should answer.
func (l *lane) progressed() bool {
	left := l.st.unacked()
	acked := l.sent - uint64(left)
	more := acked > l.acked
	l.acked = acked
	return more && left+l.out.size > 0
}
