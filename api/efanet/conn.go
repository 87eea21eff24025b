package efanet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// Conn is a connection: a stream of bytes in each direction. It is what [Dial] and
// [Listener.Accept] return; beyond net.Conn it has CloseRead and CloseWrite, as a net.TCPConn has.
// All methods may be called by any number of goroutines.
//
// Writes of less than 64 KiB are copied, and wait only if 128 KiB of them are still unread, less what
// the last ones cost: up to 6 KiB. If the other side has read more, but has kept that to itself until it answers, a
// write may wait for some milliseconds. A larger write is handed to the reader piece by piece as it reads, without a
// copy in between where the device can do that, and returns when the reader has all of it.
//
// After an error of Write n is how many bytes the other side has, or will have unless it dies or
// the connection breaks. What Write has counted arrives also if the process ends without Close, as
// far as the other side takes it; Close makes sure.
//
// A Write of memory of [efa.Domain.Alloc] over shm, or of 1 MiB and more on an EFA card, is an exception to
// deadlines: the other side reads that memory by itself. If it was about to and stands still, the call ends up to
// PeerTimeout after its deadline, or after Close, and the other side counts as failed.
type Conn struct {
	hub  *hub
	peer *peer
	id   uint64 // here
	to   uint64 // the other side's

	from, fromWait []efa.OpOption
	local, remote  net.Addr

	in  reader
	out writer

	life   context.Context // of what goes on after Close
	giveUp context.CancelFunc

	wasReset          atomic.Bool // the other side is to hear RESET
	lost              atomic.Bool // the other side has forgotten the connection, and is to hear nothing
	closed            atomic.Bool
	endRead, endWrite sync.Once
	drained           chan struct{} // closed: nothing comes on the stream any more
	flushed           chan struct{} // closed: the other side has FIN and what is before it, or has failed
	forgot            chan struct{} // closed: nothing comes for the writer any more
}

var _ interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
} = (*Conn)(nil)

const (
	// lingerFlush is for how long Close waits for the other side to have everything.
	lingerFlush = time.Second
	// lingerPeer is for how long a closed connection waits for the other side to close, too.
	lingerPeer = time.Minute
)

func newConn(h *hub, p *peer) *Conn {
	c := &Conn{
		hub: h, peer: p, id: h.nextID(),
		from:     []efa.OpOption{efa.From(p.at), efa.OnePacket},
		fromWait: []efa.OpOption{efa.From(p.at), efa.Wait},
		local:    h.local, remote: Addr{text: p.text},
		drained: make(chan struct{}), flushed: make(chan struct{}), forgot: make(chan struct{}),
	}
	c.in.c, c.out.c = c, c
	c.in.due, c.out.most = window/4, h.most
	c.life, c.giveUp = context.WithCancel(h.ctx)
	c.in.init()
	c.out.init()
	h.naming.Lock()
	h.byID[c.id] = c
	h.naming.Unlock()
	return c
}

// leave forgets the connection, and throws away what has come for it and was not taken. What comes from now on is
// not wanted, see hub.wanted.
func (c *Conn) leave() {
	c.giveUp()
	h := c.hub
	h.naming.Lock()
	delete(h.byID, c.id)
	h.naming.Unlock()
	for _, l := range []lane{laneStream, laneBulk, laneBack} {
		for range maxConns { // a peer that sends more meanwhile has it counted until its end
			cl, err := h.ep.ClaimTag(h.ctx, l.match(c.id), c.from...)
			if err != nil {
				break // there is nothing
			}
			c.peer.bin.put(h, cl)
		}
	}
	h.leave(c)
}

// begin says what the other side has answered.
func (c *Conn) begin(to uint64, a accepted) {
	c.to, c.out.window, c.out.credit, c.out.presses = to, a.window, a.window, a.window&joins != 0
	c.hub.begun(c, a.epoch)
}

// Read reads what has come, and waits until there is something. After the other side's CloseWrite
// it returns io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil {
		err = opError("read", c.local, c.remote, err)
	}
	return n, err
}

// Write writes p.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = opError("write", c.local, c.remote, err)
	}
	return n, err
}

// LocalAddr is the address of this side's endpoint.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other side's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets until when calls of Read may wait, also those in progress.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.in.limit, t) }

// SetWriteDeadline sets until when calls of Write may wait, also those in progress. A piece that
// the reader is taking at that moment counts, and goes on from a copy.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out.limit, t) }

func (c *Conn) setDeadline(l *limit, t time.Time) error {
	if c.closed.Load() {
		return opError("set", c.local, c.remote, net.ErrClosed)
	}
	l.set(t)
	return nil
}

// CloseRead ends reading: Read returns io.EOF, and the other side's Write an error.
func (c *Conn) CloseRead() error {
	if c.closed.Load() {
		return opError("close", c.local, c.remote, net.ErrClosed)
	}
	c.shutRead(io.EOF)
	return nil
}

// CloseWrite ends writing: the other side reads what was written, and then io.EOF.
func (c *Conn) CloseWrite() error {
	if c.closed.Load() {
		return opError("close", c.local, c.remote, net.ErrClosed)
	}
	c.shutWrite(syscall.EPIPE)
	return nil
}

func (c *Conn) shutRead(err error) {
	c.in.end(err)
	c.endRead.Do(func() {
		go func() {
			defer close(c.drained)
			c.in.drain(c.life)
		}()
	})
}

func (c *Conn) shutWrite(err error) {
	c.out.end(err)
	c.endWrite.Do(func() {
		go func() {
			defer close(c.forgot)
			c.out.finish(c.life)
			close(c.flushed)
			c.out.forget(c.life)
		}()
	})
}

// Close closes the connection. What was written is delivered; for up to a second Close waits
// until the other side has it, but not for a process that has not answered an earlier Close yet. What was
// not read is thrown away. A second call returns an error that is net.ErrClosed.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return opError("close", c.local, c.remote, net.ErrClosed)
	}
	c.shutRead(net.ErrClosed)
	c.shutWrite(net.ErrClosed)
	go c.linger()
	if c.peer.silent.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lingerFlush)
	defer cancel()
	select {
	case <-c.flushed:
	case <-ctx.Done():
		select {
		case <-c.flushed:
		default:
			c.peer.silent.Store(true)
		}
		return nil
	}
	if c.out.behind { // which the other side has when it has read FIN
		select {
		case <-c.forgot:
		case <-ctx.Done():
		}
	}
	return nil
}

// linger waits until the other side has closed the connection, too, and at most lingerPeer. That
// side has been told FIN and STOP by then: there is nothing more to say.
func (c *Conn) linger() {
	defer c.leave()
	ctx, cancel := context.WithTimeout(c.hub.ctx, lingerPeer)
	defer cancel()
	for _, ended := range []chan struct{}{c.drained, c.forgot} {
		select {
		case <-ended:
		case <-ctx.Done():
			c.giveUp()
			<-ended
		}
	}
}

// unreachable is why the other side cannot get frames of the connection any more.
func (c *Conn) unreachable() error {
	if c.lost.Load() {
		return errGone
	}
	return c.peer.err()
}

// send injects a frame.
func (c *Conn) send(ctx context.Context, l lane, k kind, value uint64, p []byte) error {
	return c.sendTo(ctx, l.tag(c.to), k, value, p)
}

// hand is send for the last frame of a Write: when it returns the device has all of them.
func (c *Conn) hand(ctx context.Context, l lane, k kind, value uint64, p []byte) error {
	if err := c.unreachable(); err != nil {
		return err
	}
	return c.hub.ep.SendTag(ctx, c.peer.at, l.tag(c.to), p, efa.Inject, efa.Wait, efa.Data(head(k, value)))
}

// sendTo injects a frame that need not be to the connection.
func (c *Conn) sendTo(ctx context.Context, tag uint64, k kind, value uint64, p []byte) error {
	if err := c.unreachable(); err != nil {
		return err
	}
	return c.hub.ep.SendTag(ctx, c.peer.at, tag, p, efa.Inject, efa.Data(head(k, value)))
}

// next receives a frame, which is one packet. So a peer that sends the beginning of a long message
// takes nothing of what the endpoint lends, which it has for all of its connections.
func (c *Conn) next(ctx context.Context, l lane) (efa.Delivery, error) {
	d, err := c.hub.ep.NextTag(ctx, l.match(c.id), c.from...)
	if err == nil {
		return d, nil
	}
	var long *efa.TooLongError
	if errors.As(err, &long) {
		err = violation("a frame of %d bytes", long.Claimed.Message.N)
		c.peer.bin.put(c.hub, long.Claimed)
	}
	return d, err
}

// last sends the last frame of the stream: RESET also to a peer that has failed. Behind FIN it asks, and the answer
// to that, which does not wait for the other side's program, says that all before it has arrived there.
func (c *Conn) last(ctx context.Context, k kind, value uint64) error {
	if c.lost.Load() {
		return errGone
	}
	if k == kindReset {
		return c.hub.ep.SendTag(ctx, c.peer.at, laneStream.tag(c.to), nil, efa.Data(head(k, value)))
	}
	if err := c.send(ctx, laneStream, k, value, nil); err != nil {
		return err
	}
	select {
	case c.peer.asks <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	q, _ := c.hub.question(c.peer)
	err := c.hub.ep.SendTag(ctx, c.peer.at, laneOpen.tag(0), q, efa.Complete(efa.Delivered), efa.Data(head(kindPing, 0)))
	if err == nil || ctx.Err() == nil { // else it stays under way
		<-c.peer.asks
	}
	if err == nil {
		c.peer.silent.Store(false)
	}
	return err
}

// broken keeps an error that is the end of one half. If the other side has broken the protocol
// the connection is over.
func (c *Conn) broken(where *error, err error) error {
	if errors.Is(err, efa.ErrAccess) { // the other side took back the memory that was being read
		err = fmt.Errorf("%w: %w", efa.ErrPeerAborted, err)
	}
	*where = err
	if errors.Is(err, errFrame) {
		c.reset(err)
	}
	return err
}

// reset ends both halves with an error, and the other side hears of that: RESET stands in the
// place of FIN, unless that has left already.
func (c *Conn) reset(err error) {
	c.wasReset.Store(true)
	c.shutRead(err)
	c.shutWrite(err)
}

// lose ends both halves of a connection that the other side has forgotten: it is to hear nothing.
func (c *Conn) lose() {
	c.lost.Store(true)
	c.shutRead(errGone)
	c.shutWrite(errGone)
	c.giveUp()
}

// limit is until when calls of one direction may wait: a deadline that can be moved while they
// do, and the end of the direction. Calls wait with its context; if that ends by errMoved they
// are to go on with the next one.
type limit struct {
	now  atomic.Pointer[period]
	held atomic.Pointer[hold] // what is under way that cannot be taken up again, unless it is watched

	mu    sync.Mutex // of those that change it
	ended error
}

type period struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

var errMoved = errors.New("efanet: the deadline was moved")

func newPeriod(t time.Time) *period {
	ctx, cancel := context.WithCancelCause(context.Background())
	if t.IsZero() {
		return &period{ctx, cancel}
	}
	ctx, stop := context.WithDeadlineCause(ctx, t, os.ErrDeadlineExceeded)
	return &period{ctx, func(err error) {
		cancel(err)
		stop()
	}}
}

func (l *limit) init() { l.now.Store(newPeriod(time.Time{})) }

func (l *limit) ctx() context.Context { return l.now.Load().ctx }

// err is why nothing may wait, or even begin, now.
func (l *limit) err() error {
	if ctx := l.ctx(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// over reports whether the direction has ended.
func (l *limit) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended != nil
}

// set moves the deadline; the zero time is none.
func (l *limit) set(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.change(newPeriod(t))
	}
}

// end makes all calls return err from now on. After net.ErrClosed nothing else counts.
func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.ended, net.ErrClosed) {
		return
	}
	l.ended = err
	p := newPeriod(time.Time{})
	p.cancel(err)
	l.change(p)
}

// hold is a context of what cannot be taken up again once it was left: it ends at once with the
// direction, but with a deadline only if that lasts. Until it has ended it serves again and again.
type hold struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// begin has what begins now end with h, or with a new one if there is none or it has ended. The caller has waited with ctx
// before; letGo follows.
func (l *limit) begin(ctx, parent context.Context, h *hold) *hold {
	if h == nil || h.ctx.Err() != nil {
		h = new(hold)
		h.ctx, h.cancel = context.WithCancelCause(parent)
	}
	l.held.Store(h)
	if _, limited := ctx.Deadline(); limited || ctx.Err() != nil || l.ctx() != ctx {
		l.watch()
	}
	return h
}

// letGo is the end of what began.
func (l *limit) letGo(h *hold) {
	if !l.held.CompareAndSwap(h, nil) { // it is watched
		h.cancel(context.Canceled)
	}
}

// watch has a goroutine end what is under way, if anything is, as the deadline and the end of the direction say.
func (l *limit) watch() {
	if h := l.held.Swap(nil); h != nil {
		go l.endHeld(h)
	}
}

// patience is how long what is held goes on after a deadline.
const patience = 50 * time.Millisecond

func (l *limit) endHeld(h *hold) {
	for h.ctx.Err() == nil {
		now := l.ctx()
		select {
		case <-now.Done():
		case <-h.ctx.Done():
			return
		}
		why := context.Cause(now)
		if errors.Is(why, os.ErrDeadlineExceeded) {
			again := clock.NewTimer(patience)
			select {
			case <-again.C:
			case <-h.ctx.Done():
				again.Stop()
				return
			}
		}
		if l.ctx() == now {
			h.cancel(why)
		}
	}
}

func (l *limit) change(p *period) {
	l.now.Swap(p).cancel(errMoved)
	l.watch()
}

// settle waits until the calls are over that were in progress when their direction ended. Those
// that come later hold mu for a moment and do nothing else.
func settle(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
