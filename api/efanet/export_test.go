package efanet

import (
	"context"
	"net"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// Unread is how many messages wait at a connection's endpoint that nobody has received.
func Unread(ctx context.Context, c net.Conn) (int, error) {
	s, err := c.(*Conn).hub.ep.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	return s.Queues.Unexpected, nil
}

// Receives reports whether a long message is being received at a connection's endpoint.
func Receives(ctx context.Context, c net.Conn) bool {
	s, err := c.(*Conn).hub.ep.Snapshot(ctx)
	if err != nil {
		return false
	}
	for _, o := range s.Operations {
		if o.Kind == "receive" && o.Bytes > maxFrame {
			return true
		}
	}
	return false
}

// AskEvery has endpoints that are opened from now on ask by PING so often, until the test is over.
func AskEvery(d time.Duration) (back func()) {
	was := askEvery
	askEvery = d
	return func() { askEvery = was }
}

// TakeForDead has a connection's side take the other one for dead.
func TakeForDead(c net.Conn) {
	err := efa.ErrPeerFailed
	c.(*Conn).peer.failed.Store(&err)
}

// KeepIdle has endpoints that are opened from now on keep so many peers without connections, until the
// test is over.
func KeepIdle(n int) (back func()) {
	was := maxIdle
	maxIdle = n
	return func() { maxIdle = was }
}

// Known is how many addresses a listener's endpoint has.
func Known(l net.Listener) int { return l.(*Listener).hub.ep.AddressVector().Len() }

// Held is the context that a connection keeps for what its Read cannot take up again, once that has ended.
func Held(c net.Conn) context.Context {
	<-c.(*Conn).drained
	return c.(*Conn).in.hold.ctx
}

// ID is a connection's here.
func ID(c net.Conn) uint64 { return c.(*Conn).id }

// Flushed is closed when the other side has all that was written, and the end.
func Flushed(c net.Conn) <-chan struct{} { return c.(*Conn).flushed }

// Give has a listener give its address out at a socket.
func Give(l, at net.Listener) { l.(*Listener).give(at) }

// Givable is givable.
func Givable(a efa.Address, at net.Addr) error { return givable(a, at) }

// Broken is the error of a connection of which a half ended with err.
func Broken(err error) error { return plain(new(Conn).broken(new(error), err)) }

// CallError is callError.
func CallError(op, addr string, err error) error { return callError(op, addr, err) }
