package remote

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// name is what PIDs keep that have it as their address: it is the process, in protoactor's sense, of
// all actors there. It leads to a link as long as there is a session; names of one endpoint lead to the
// same one. A name that the table has forgotten works on, by the one that is there in its place.
type name struct {
	table *table
	text  string
	link  atomic.Pointer[link] // the table's lock guards changes of a name that it has

	// The table's lock guards what follows.
	own     clock.Time    // until when it is known to be a name of this process
	retry   clock.Time    // until when it is not asked for again
	backoff time.Duration // how long that was
	in      *list.List    // idle or asking, or nil
	place   *list.Element
}

var _ actor.Process = (*name)(nil)

// SendUserMessage implements actor.Process.
func (n *name) SendUserMessage(target *actor.PID, message any) {
	header, plain, sender := actor.UnwrapEnvelope(message)
	e := envelope{target: target, sender: sender, message: plain}
	if header != nil && header.Length() > 0 {
		e.header = header.ToMap()
	}
	// A goroutine that receives must not wait, and a dead letter's answer may come from there.
	_, answer := plain.(*actor.DeadLetterResponse)
	n.post(&e, letter{target, message, false}, answer)
}

// SendSystemMessage implements actor.Process.
func (n *name) SendSystemMessage(target *actor.PID, message any) {
	e := envelope{system: true, target: target, message: message}
	n.post(&e, letter{target, message, true}, true)
}

// Stop implements actor.Process.
func (n *name) Stop(target *actor.PID) { n.SendSystemMessage(target, &actor.Stop{}) }

// post has a message leave, or be a dead letter. An urgent one does not wait for room.
func (n *name) post(e *envelope, x letter, urgent bool) {
	r := n.table.r
	switch err := n.send(e, x, urgent); {
	case err == nil:
	case errors.Is(err, errOwn):
		r.local(n.text, x)
	default:
		if !x.system {
			r.undeliverable(x.target, e.message, err)
		}
		r.lost(x)
	}
}

// send encodes a message, and queues it where the name leads.
func (n *name) send(e *envelope, x letter, urgent bool) error {
	r := n.table.r
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	body, codec, typ, err := r.codecs.append((*scratch)[:0], e.message)
	if err != nil {
		return err
	}
	if cap(body) <= keepBuf {
		*scratch = body
	}
	if len(body) > r.cfg.MaxMessage {
		return ErrTooLong
	}
	for l := n.link.Load(); ; {
		if l != nil {
			if err := l.post(n.text, e, x, codec, typ, body, urgent); !errors.Is(err, errOver) {
				return err
			}
		}
		// What a peer says about third processes is no reason to ask for them.
		_, answer := e.message.(*actor.DeadLetterResponse)
		if l, err = n.table.lead(n, !answer); err != nil {
			return err
		}
	}
}

var scratches = sync.Pool{New: func() any { return new([]byte) }}

var (
	errOwn   = errors.New("remote: a name of this process")
	errNames = errors.New("remote: too many addresses, see Config.MaxAddresses")
	errAway  = fmt.Errorf("%w: its name leads to another process now", ErrUnreachable)
)

// maxIdle is how many names are kept that lead nowhere: of the others nothing is known but that they may
// be asked for again.
const maxIdle = 1 << 10

// ownFor is how long a name stays this process' own before it is asked for again.
const ownFor = 15 * time.Second

// table has the names of other processes, and where they lead. Who takes its lock may take a link's then, not
// the other way round.
type table struct {
	r    *Remote
	mine bool // the endpoint is the Remote's own, and its address vector with it

	mu       sync.RWMutex
	ended    bool
	names    map[string]*name
	links    map[efa.Addr]*link // by peer
	visitors map[efa.Addr]int   // peers with an answer on its way to them, or whose HELLO is looked at
	failed   []efa.Addr         // peers that have failed, oldest first: one that comes back is to learn it
	idle     list.List          // names that lead nowhere, oldest first
	asking   list.List          // and those that are asked for: there is no proof yet that anybody is there
}

func (t *table) init(r *Remote, mine bool) {
	t.r, t.mine = r, mine
	t.names, t.links, t.visitors = map[string]*name{}, map[efa.Addr]*link{}, map[efa.Addr]int{}
}

// name is the one with a text. Before it is used it takes no place in the table.
func (t *table) name(text string) *name {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n := t.names[text]; n != nil {
		return n
	}
	return &name{table: t, text: text}
}

// of is the link of a peer; nil: there is no session with it.
func (t *table) of(at efa.Addr) *link {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.links[at]
}

// all is every link there is.
func (t *table) all() []*link {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []*link
	for _, n := range t.names {
		if l := n.link.Load(); l != nil && len(l.names) > 0 && l.names[0] == n { // each once
			all = append(all, l)
		}
	}
	return all
}

// end has no further sessions begin, and returns those that there are.
func (t *table) end() ([]*link, error) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	t.ended = true
	t.mu.Unlock()
	return t.all(), nil
}

// closing reports whether Close was called.
func (t *table) closing() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ended
}

// lead is the link to which a name leads. Without one, the process is asked for, if ask is set.
func (t *table) lead(n *name, ask bool) (*link, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrClosed
	}
	m := t.names[n.text]
	if m == nil {
		if !ask {
			return nil, ErrUnreachable
		}
		if m = n; !t.add(m, false) {
			return nil, errNames
		}
	}
	l, now := m.link.Load(), t.r.now()
	if l != nil {
		// A name that the table had forgotten may have kept a link that it shared with the one in its place.
		if over, _ := l.status(); over {
			m.link.Store(nil)
			l = nil
		}
	}
	switch {
	case l != nil:
	case now < m.own:
		return nil, errOwn
	case now < m.retry || !ask:
		return nil, ErrUnreachable
	default:
		l = t.newLink(m.text)
		t.join(m, l)
		l.startAsking()
	}
	n.link.Store(l)
	return l, nil
}

// add gives a name a place; of too many, one that leads nowhere goes, and, for one that is proven, one that is
// only asked for. It reports whether there is a place.
func (t *table) add(n *name, proven bool) bool {
	for len(t.names) >= t.r.cfg.MaxAddresses || t.idle.Len() >= maxIdle {
		e := t.idle.Front()
		if e == nil && proven {
			e = t.asking.Front()
		}
		if e == nil {
			return false
		}
		gone := e.Value.(*name)
		delete(t.names, gone.text)
		t.put(gone, nil)
		if l := gone.link.Load(); l != nil {
			t.r.served.Go(func() { l.fail(errNames) })
		}
	}
	t.names[n.text] = n
	t.put(n, &t.idle)
	return true
}

// put has a name be in one list, or none.
func (t *table) put(n *name, in *list.List) {
	if n.in != nil {
		n.in.Remove(n.place)
	}
	if n.in = in; in != nil {
		n.place = in.PushBack(n)
	}
}

// newLink is a link that is called by a name here.
func (t *table) newLink(text string) *link {
	l := &link{r: t.r, name: text, mine: newSession()}
	l.ctx, l.over = context.WithCancel(context.Background())
	l.lane.of = l
	return l
}

// join has a name lead to a link.
func (t *table) join(n *name, l *link) {
	if !slices.Contains(l.names, n) {
		l.names = append(l.names, n)
	}
	n.link.Store(l)
	in := &t.asking
	if l.isUp() {
		in = nil
	}
	t.put(n, in)
}

// isOwn reports whether an address is that of this process.
func (t *table) isOwn(a efa.Address) bool {
	for _, scheme := range schemes {
		if raw, ok := a.Raw(scheme); ok {
			if own, ok := t.r.address.Raw(scheme); ok && own == raw {
				return true
			}
		}
	}
	return false
}

var schemes = []string{"shm", "tcp", "efa", "sim"}

// found has the link that asks be the one of the endpoint at an address, or, if that has one, what
// waits for it wait there.
func (t *table) found(l *link, a efa.Address) error {
	t.mu.Lock()
	if over, up := l.status(); over || up { // it has asked us meanwhile
		t.mu.Unlock()
		return nil
	}
	if t.isOwn(a) {
		letters := l.drop(nil).letters
		for _, n := range t.leave(l) {
			n.own = t.r.now().Add(ownFor)
		}
		t.mu.Unlock()
		for _, x := range letters {
			t.r.local(l.name, x)
		}
		return nil
	}
	defer t.mu.Unlock()
	at, err := t.r.ep.AddressVector().Insert(a)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if there := t.links[at]; there != nil && there != l {
		t.merge(l, there)
		return nil
	}
	return t.reach(l, at)
}

// reach has a link be that of a peer.
func (t *table) reach(l *link, at efa.Addr) error {
	failure, err := t.r.ep.Start(&efa.RecvReq{From: at, Directed: true, Tagged: true, Tag: tagWatch})
	if err != nil {
		t.release(at)
		return err
	}
	t.links[at] = l
	t.failed = slices.DeleteFunc(t.failed, func(a efa.Addr) bool { return a == at })
	l.reached(at, failure)
	return nil
}

// merge has the names of a link that asks lead to another one, and what waits for it wait there.
func (t *table) merge(l, to *link) {
	from := l.drop(nil)
	to.take(&from)
	for _, n := range t.leave(l) {
		t.join(n, to)
		if to.isUp() {
			t.r.events.publish(&Connected{Address: n.text})
		}
	}
}

// leave takes a link that is over out of the table. It returns the names that led to it, which lead
// nowhere now.
func (t *table) leave(l *link) []*name {
	if t.links[l.at] == l {
		delete(t.links, l.at)
		t.release(l.at)
	}
	names := l.names
	l.names = nil
	for _, n := range names {
		n.link.Store(nil)
		if t.names[n.text] == n {
			t.put(n, &t.idle)
		}
	}
	return names
}

// release takes a peer that is not needed any more out of the address vector, if that is the
// Remote's own.
func (t *table) release(at efa.Addr) {
	if t.mine && !t.ended && t.links[at] == nil && t.visitors[at] == 0 && !slices.Contains(t.failed, at) {
		_ = t.r.ep.AddressVector().Remove(over, at) // it need not be waited for
	}
}

// maxFailed is how many peers that have failed stay in the address vector. From there one that was stopped and
// goes on is heard, and learns that its session is over.
const maxFailed = 1 << 10

// keep has a peer that has failed stay in the address vector, and the one that has been there for longest go.
func (t *table) keep(at efa.Addr) {
	if t.failed = append(t.failed, at); len(t.failed) > maxFailed {
		oldest := t.failed[0]
		t.failed = t.failed[1:]
		t.release(oldest)
	}
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// fail ends a session, or that it is asked for. What waits is lost, and watchers of actors there learn
// of it. The table is locked; what is returned is to be called when it is not any more.
func (t *table) fail(l *link, err error) (tell func()) {
	had := l.drop(err)
	if !had.any {
		return func() {}
	}
	if errors.Is(err, errForgotten) { // what is new does not come before what is old
		l.lane.over.Store(true)
	}
	r, retry := t.r, t.r.now()
	if errors.Is(err, efa.ErrPeerFailed) && t.links[l.at] == l {
		t.keep(l.at)
	}
	names := t.leave(l)
	for _, n := range names {
		n.backoff = min(max(2*n.backoff, firstBackoff), maxBackoff)
		n.retry = retry.Add(n.backoff)
		r.events.publish(&Lost{Address: n.text, Err: err})
	}
	return func() {
		r.warn("remote: process lost", slog.String("address", l.name), slog.Any("err", err))
		had.lost(r, l.name)
	}
}

// accept answers a HELLO that comes from the endpoint at an address, where its name leads. The message itself may carry a handle
// that was given back meanwhile.
func (t *table) accept(text string, a efa.Address, theirs uint64) {
	var tell []func()
	defer func() {
		for _, f := range tell {
			f()
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.r.events.full() {
		return // the next HELLO will do
	}
	at, err := t.r.ep.AddressVector().Insert(a)
	if err != nil {
		return
	}
	t.visitors[at]++ // its place stays over the end of a session
	defer t.left(at)
	n, l := t.names[text], t.links[at]
	if l != nil {
		switch over, up := l.status(); {
		case up && l.theirs == theirs && n != nil && n.link.Load() == l:
			l.welcome() // the answer may be on its way
			return
		case over:
			return
		case up: // it has begun anew
			tell = append(tell, t.fail(l, errForgotten))
			l, n = nil, t.names[text]
		}
	}
	if n == nil {
		if n = t.name1(text); n == nil {
			return
		}
	}
	if led := n.link.Load(); led != nil && led != l {
		_, up := led.status()
		switch {
		case up || len(led.names) > 1:
			tell = append(tell, t.fail(led, errAway))
		case l != nil:
			t.merge(led, l)
		default: // it has been asked for, perhaps elsewhere
			l = led
			if t.links[l.at] == l {
				delete(t.links, l.at)
				t.release(l.at)
			}
		}
	}
	if l == nil {
		l = t.newLink(text)
	}
	if t.links[at] != l {
		if err := t.reach(l, at); err != nil {
			t.join(n, l)
			tell = append(tell, t.fail(l, err))
			return
		}
	}
	t.join(n, l)
	t.begin(l, theirs)
	l.welcome()
}

// name1 is a new name of a peer that is proven; nil if there is no place.
func (t *table) name1(text string) *name {
	n := &name{table: t, text: text}
	if !t.add(n, true) {
		return nil
	}
	return n
}

// begin has the session of a link be up. The table is locked.
func (t *table) begin(l *link, theirs uint64) {
	for _, n := range l.names {
		t.put(n, nil)
		n.backoff, n.retry = 0, 0
		t.r.events.publish(&Connected{Address: n.text})
	}
	l.begin(theirs)
}

// welcomed begins the session that was asked for.
func (t *table) welcomed(l *link, mine, theirs uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over, up := l.status(); !over && !up && l.mine == mine {
		t.begin(l, theirs)
	}
}

// maxVisitors is how many peers without a session are answered at a time.
const maxVisitors = 64

// answer sends a short frame to the sender of a message, with which there may be no session.
func (t *table) answer(m *efa.Message, frame []byte) {
	if !t.mine {
		if m.From != efa.NoAddr {
			_ = t.r.tell(m.From, frame) // the next frame is answered again
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || len(t.visitors) >= maxVisitors {
		return
	}
	at, err := t.r.ep.Sender(*m)
	if err != nil {
		return
	}
	op, err := t.r.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: tagOf(frame), Buf: frame})
	if err != nil {
		t.release(at)
		return
	}
	t.visitors[at]++
	t.r.served.Go(func() {
		<-op.Done()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.left(at)
	})
}

// left gives the place of a visitor back, if there is no session now.
func (t *table) left(at efa.Addr) {
	if t.visitors[at]--; t.visitors[at] == 0 {
		delete(t.visitors, at)
		t.release(at)
	}
}
