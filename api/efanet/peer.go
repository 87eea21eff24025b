package efanet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// peer is an endpoint at the other side of connections. The hub owns it. What it asks waits in a
// queue of its own, and a goroutine of its own answers that, one answer at a time: so a peer that
// asks without end, or takes no answers, holds up itself.
type peer struct {
	at     efa.Addr
	text   string // its address
	news   chan struct{}
	failed atomic.Pointer[error] // why nothing reaches it any more
	silent atomic.Bool           // a Close has waited for it in vain, since it has answered last
	asks   chan struct{}         // has an element for each PING behind a FIN that has no receipt
	bin    bin                   // of what it sends that is no frame

	// The hub's lock guards what follows.
	raw       efa.RawAddr // what its packets come from, once it has asked something
	stated    string      // the address that it has stated then
	conns     int
	on        map[*Conn]struct{} // of these, those that are open
	mine      uint64             // the epoch that we have told it, see hub.begun
	theirs    uint64             // the one that it has told us; 0: none yet
	opens     []open             // what it has asked for, oldest first
	pinged    uint64             // the epoch that it has asked about last; 0: none
	answering bool               // an answer is on its way
	rests     bool               // it is on hub.idle
}

// maxOpens is how many connections a peer may ask for at a time. One that keeps to the protocol
// counts them as its own, so it never has more.
const maxOpens = maxConns

// maxAsks is how many connections that end may ask a peer at a time whether it has everything. An operation of one that
// takes no questions stays for good.
const maxAsks = 64

// err is why nothing reaches the peer any more; nil: it is alive as far as is known.
func (p *peer) err() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// notify has the peer's goroutine look at what is asked.
func (p *peer) notify() {
	select {
	case p.news <- struct{}{}:
	default: // it has been told already
	}
}

// peerAt is the peer with a handle. It is new if there was none, or only one that has failed, which
// keeps its connections: they are over. The caller has the hub locked, and settles the peer.
func (h *hub) peerAt(at efa.Addr, text string) *peer {
	p := h.peers[at]
	if p != nil && p.err() == nil {
		return p
	}
	if p != nil && p.rests {
		h.idle = without(h.idle, p)
	}
	p = &peer{at: at, text: text, news: make(chan struct{}, 1), asks: make(chan struct{}, maxAsks), on: map[*Conn]struct{}{}, mine: h.nextEpoch()}
	h.peers[at] = p
	h.served.Go(func() { h.attend(p) })
	return p
}

// bin throws messages away, one after the other: that takes as long as their sender likes, which
// so has one goroutine wait for it. The rest waits at the endpoint, and counts as the sender's.
type bin struct {
	mu  sync.Mutex
	has []*efa.Claimed // the first is being thrown away
}

func (b *bin) put(h *hub, cl *efa.Claimed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has = append(b.has, cl); len(b.has) == 1 {
		h.served.Go(func() { b.empty(h.ctx) })
	}
}

func (b *bin) empty(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.has) > 0 {
		first := b.has[0]
		b.mu.Unlock()
		_ = first.Discard(ctx) // an error is its end as well
		b.mu.Lock()
		b.has = b.has[1:]
	}
	b.has = nil
}

// serve takes what peers ask, until the endpoint ends. A listener that is still there by then
// learns why.
func (h *hub) serve() {
	err := h.take()
	h.over.Store(&err)
	if l := h.to.Load(); l != nil {
		l.limit.end(err)
	}
}

// take takes messages of one packet: of a longer one, which may never come whole, it awaits nothing. It
// waits for channels, not on the endpoint: goroutines that wait for bytes drive the device, and are not to
// hand it to this one.
func (h *hub) take() error {
	type slot struct {
		op  *efa.Op
		buf []byte
	}
	slots := make([]slot, min(openAhead, max(h.ep.Config().RxDepth/4, 1)))
	for i := range slots {
		slots[i].buf = make([]byte, maxOpen)
	}
	post := func(s *slot) (err error) {
		s.op, err = h.start(&efa.PacketReq{Tagged: true, Tag: laneOpen.tag(0), Buf: s.buf})
		return err
	}
	for i := range slots {
		if err := post(&slots[i]); err != nil {
			return err
		}
	}
	for i := 0; ; i = (i + 1) % len(slots) {
		s := &slots[i]
		<-s.op.Done()
		c, err := s.op.Wait(h.ctx)
		if errors.Is(err, efa.ErrClosed) || errors.Is(err, efa.ErrIO) {
			return err
		}
		var long *efa.TooLongError
		if errors.As(err, &long) {
			h.bin.put(h, long.Claimed)
		}
		if err == nil {
			h.asked(&c.Message, s.buf[:c.N])
		}
		if err := post(s); err != nil {
			return err
		}
	}
}

// asked queues what a message asks: an OPEN or a PING. It is all that peers have in common, and
// takes no longer than to look them up. What is neither has no answer: there is nobody to give it to.
func (h *hub) asked(m *efa.Message, body []byte) {
	f, err := parse(laneOpen, m)
	if err != nil {
		return
	}
	var o open
	var q ping
	if f.kind == kindOpen {
		err = o.unmarshal(body)
	} else {
		err = q.unmarshal(body)
	}
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.sender(m, o.from+q.from) // one of them is empty
	if p == nil {
		return
	}
	if f.kind == kindPing {
		p.pinged = q.epoch
	} else if len(p.opens) < maxOpens {
		o.from = ""
		p.opens = append(p.opens, o)
	}
	p.notify()
	h.settle(p)
}

// sender is the peer that a message has come from, by the path that it has come by: what it states
// beside that is not used. nil: it states another's address, or there are too many peers. The hub
// is locked.
func (h *hub) sender(m *efa.Message, stated string) *peer {
	if p := h.peers[m.From]; p != nil && p.err() == nil && p.raw == m.Raw() && p.stated == stated {
		return p
	}
	text, ok := pathOf(m, stated)
	if !ok || h.users == 0 || len(h.peers)-len(h.idle) >= maxPeers {
		return nil
	}
	by := *m
	by.From = efa.NoAddr // the handle may have been removed since the message came
	at, err := h.ep.Sender(by)
	if err != nil {
		return nil // it cannot be reached
	}
	p := h.peerAt(at, text)
	p.raw, p.stated = m.Raw(), stated
	return p
}

// pathOf is that path of a stated address which a message has come by.
func pathOf(m *efa.Message, stated string) (text string, ok bool) {
	a, err := efa.ParseAddress(stated)
	if err != nil {
		return "", false
	}
	for _, scheme := range []string{"shm", "tcp", "efa", "sim"} {
		if raw, ok := a.Raw(scheme); ok && raw == m.Raw() {
			return raw.URI(scheme), true
		}
	}
	return "", false
}

// attend answers a peer until its end. It learns of that also where nobody reads, since an injected
// frame does not tell. And it asks the peer whether it still knows of the connections.
func (h *hub) attend(p *peer) {
	err := h.attendUntil(p)
	p.failed.Store(&err)
	h.mu.Lock()
	p.opens, p.pinged, p.answering = nil, 0, false
	h.settle(p)
	h.mu.Unlock()
}

func (h *hub) attendUntil(p *peer) error {
	req := efa.RecvReq{From: p.at, Directed: true, Tagged: true, Tag: laneWatch.tag(0)}
	said, err := h.start(&req)
	if err != nil {
		return err
	}
	asks := question{from: p.at}
	defer asks.end()
	again := clock.NewTimer(h.askEvery)
	defer again.Stop()
	var asked *efa.Op
	news, left := p.news, (<-chan struct{})(nil) // one of them is nil
	for {
		select {
		case <-said.Done():
			if err := h.heard(p, said); err != nil {
				return err
			}
			if said, err = h.start(&req); err != nil {
				return err
			}
		case <-asks.done(h.ep):
			if err := asks.take(h); err != nil {
				return err
			}
		case <-again.C:
			again.Reset(h.askEvery)
			asked = h.ask(p, asked)
		case <-news:
			if answer := h.answer(p); answer != nil {
				news, left = nil, answer.Done()
				continue
			}
			h.answered(p)
		case <-left:
			news, left = p.news, nil
			h.answered(p)
		}
	}
}

// question is a receive for what a known peer asks, so that it need not wait behind what strangers
// ask without end.
type question struct {
	from efa.Addr
	op   *efa.Op // nil: there was no room for it
	buf  []byte
}

// done posts the receive, if there is room, and returns what is closed at its end.
func (q *question) done(ep *efa.Endpoint) <-chan struct{} {
	if q.op == nil {
		if q.buf == nil {
			q.buf = make([]byte, maxOpen)
		}
		var err error
		q.op, err = ep.Start(&efa.RecvReq{From: q.from, Directed: true, Tagged: true, Tag: laneOpen.tag(0), Buf: q.buf})
		if err != nil {
			q.op = nil
			return nil
		}
	}
	return q.op.Done()
}

// take queues what has come.
func (q *question) take(h *hub) error {
	c, err := q.op.Wait(h.ctx)
	q.op = nil
	switch {
	case err == nil:
		h.asked(&c.Message, q.buf[:c.N])
	case errors.Is(err, efa.ErrTruncated):
	default:
		return err
	}
	return nil
}

// end gives the receive up.
func (q *question) end() {
	if q.op != nil {
		q.op.Cancel()
	}
}

// heard takes what has come on laneWatch: GONE, PRESS, or the error that is the peer's end.
func (h *hub) heard(p *peer, op *efa.Op) error {
	c, err := op.Wait(h.ctx)
	if err != nil {
		return err
	}
	f, err := parse(laneWatch, &c.Message)
	if err != nil {
		return err
	}
	if f.kind == kindGone {
		h.gone(p, f.value)
	} else if c := h.conn(f.value); c != nil && c.peer == p {
		c.in.press()
	}
	return nil
}

// ask sends a PING, unless there is nothing to ask or the one before has not left yet.
func (h *hub) ask(p *peer, before *efa.Op) *efa.Op {
	if before != nil {
		select {
		case <-before.Done():
		default:
			return before
		}
	}
	q, conns := h.question(p)
	if conns == 0 {
		return nil
	}
	op, err := h.ep.Start(&efa.SendReq{To: p.at, Tagged: true, Tag: laneOpen.tag(0), Buf: q, HasData: true, Data: head(kindPing, 0)})
	if err != nil {
		return nil // the next time will do
	}
	return op
}

// question is the body of a PING, about so many connections.
func (h *hub) question(p *peer) (body []byte, conns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := ping{p.theirs, h.local.String()}
	return q.marshal(), len(p.on)
}

// answer answers one thing that the peer has asked, and returns the answer that is on its way;
// nil: there is none.
func (h *hub) answer(p *peer) *efa.Op {
	l := h.to.Load()
	h.mu.Lock()
	epoch, o := p.next()
	known := p.mine == epoch
	counted := o.id != 0 && l != nil && h.users > 0 && h.count(p)
	h.mu.Unlock()
	switch {
	case epoch != 0 && !known:
		return h.tell(p, laneWatch.tag(0), head(kindGone, epoch))
	case o.id == 0:
		return nil
	case l == nil:
		return h.refuse(p, o, refusedNobody)
	case !counted:
		return h.refuse(p, o, refusedMany)
	}
	c := newConn(h, p)
	c.begin(o.id, o.accepted)
	if op := l.enqueue(c); op != nil {
		return op
	}
	go c.leave() // which may end the hub, and then waits for this goroutine
	return h.refuse(p, o, refusedBacklog)
}

// next takes out what is to be answered next: a PING, or else the oldest OPEN. The hub is locked.
// The peer does not rest until answered.
func (p *peer) next() (epoch uint64, o open) {
	p.answering = true
	if epoch, p.pinged = p.pinged, 0; epoch == 0 && len(p.opens) > 0 {
		o, p.opens = p.opens[0], p.opens[1:]
	}
	if len(p.opens) > 0 {
		p.notify()
	} else {
		p.opens = nil
	}
	return epoch, o
}

// answered is the end of what answer has begun.
func (h *hub) answered(p *peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.answering = false
	h.settle(p)
}

// tell sends a frame without a body.
func (h *hub) tell(p *peer, tag, data uint64) *efa.Op {
	op, err := h.start(&efa.SendReq{To: p.at, Tagged: true, Tag: tag, HasData: true, Data: data})
	if err != nil {
		return nil // it cannot be reached
	}
	return op
}

func (h *hub) refuse(p *peer, o open, why refusal) *efa.Op {
	return h.tell(p, laneBack.tag(o.id), head(kindRefuse, uint64(why)))
}
