package efanet

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// ListenConfig says how to listen. Its zero value works.
type ListenConfig struct {
	// Setup says what endpoint to open; nil: one on the device that the address asks for.
	Setup *efa.Setup
	// Backlog is how many connections may wait for Accept; further ones are refused. 0: 1024.
	Backlog int
}

// Listen listens with a ListenConfig that is zero.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return (&ListenConfig{}).Listen(ctx, addr)
}

// Listen opens an endpoint that takes connections. addr is "" or a host:port.
//
// "" is shared memory between the processes of this user on this host, and the listener's address
// is that of the endpoint. At host:port the endpoint's address is given out by TCP to
// everybody who dials that, and the connections themselves go by the best device that both
// sides have (the device "auto"); hosts other than loopback need credentials in
// Setup.Fabric.TCP, and so does ":8080", which is all of them. ctx is for the opening alone.
func (cfg *ListenConfig) Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := cfg.listen(ctx, addr)
	if err != nil {
		return nil, callError("listen", addr, err)
	}
	return l, nil
}

func (cfg *ListenConfig) listen(ctx context.Context, addr string) (*Listener, error) {
	if isText(addr) {
		return nil, errors.New("an endpoint chooses its own address: listen at \"\" or at host:port")
	}
	device, err := deviceFor(addr)
	if err != nil {
		return nil, err
	}
	s := efa.Setup{Fabric: efa.Config{DeviceName: device}}
	if cfg.Setup != nil {
		s = *cfg.Setup
	}
	backlog := cfg.Backlog
	if backlog <= 0 {
		backlog = 1024
	}
	var rendezvous net.Listener
	if addr != "" {
		if rendezvous, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); err != nil {
			return nil, err
		}
	}
	h, err := openHub(ctx, s)
	if err == nil && rendezvous != nil {
		if err = givable(h.ep.Address(), rendezvous.Addr()); err != nil {
			h.release()
		}
	}
	if err != nil {
		if rendezvous != nil {
			_ = rendezvous.Close() // nothing was sent
		}
		return nil, err
	}
	l := &Listener{hub: h, queue: make(chan *Conn, backlog), waiting: map[*peer]int{}, addr: h.local}
	l.limit.init()
	h.to.Store(l)
	if err := h.over.Load(); err != nil { // it was before it could tell the listener
		l.limit.end(*err)
	}
	if rendezvous != nil {
		l.addr = Addr{rendezvous.Addr().String()}
		l.give(rendezvous)
	}
	return l, nil
}

// give gives the endpoint's address out at a socket until the listener closes. An end before that is
// an error of Accept.
func (l *Listener) give(at net.Listener) {
	ctx, stop := context.WithCancel(l.hub.ctx)
	l.stop = stop
	l.giving.Go(func() {
		if err := l.hub.ep.Serve(ctx, at); err != nil {
			l.limit.end(err)
		}
	})
}

// Listener takes connections. It is what Listen returns.
type Listener struct {
	hub    *hub
	addr   net.Addr
	limit  limit // of Accept
	giving sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	queue   chan *Conn
	waiting map[*peer]int // how many of them are there
	stop    context.CancelFunc
}

// enqueue has a connection wait for Accept, and lets the other side know: that is under way. It
// returns nil if there is no room. Those of one peer may take three times what they leave to others.
func (l *Listener) enqueue(c *Conn) *efa.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := cap(l.queue) - len(l.queue)
	if l.ended || free == 0 || l.waiting[c.peer] >= 3*free {
		return nil
	}
	op, err := c.accept()
	if err != nil {
		return nil
	}
	l.waiting[c.peer]++
	l.queue <- c
	return op
}

// accept lets the other side know that its connection is there.
func (c *Conn) accept() (*efa.Op, error) {
	return c.hub.ep.Start(&efa.SendReq{
		To: c.peer.at, Tagged: true, Tag: laneBack.tag(c.to), Buf: accepted{window, c.peer.mine}.append(nil),
		HasData: true, Data: head(kindAccept, c.id),
	})
}

// dequeued is the end of a connection's wait.
func (l *Listener) dequeued(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[c.peer]--; l.waiting[c.peer] == 0 {
		delete(l.waiting, c.peer)
	}
}

// Accept waits for a connection. Once the endpoint, or what gives its address out, has failed,
// the error is that.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		ctx := l.limit.ctx()
		if ctx.Err() == nil {
			select {
			case c := <-l.queue:
				l.dequeued(c)
				return c, nil
			case <-ctx.Done():
			}
		}
		if err := context.Cause(ctx); !errors.Is(err, errMoved) {
			return nil, opError("accept", nil, l.addr, err)
		}
	}
}

// SetDeadline sets until when Accept may wait.
func (l *Listener) SetDeadline(t time.Time) error {
	if errors.Is(l.limit.err(), net.ErrClosed) {
		return opError("set", nil, l.addr, net.ErrClosed)
	}
	l.limit.set(t)
	return nil
}

// Addr is what others dial.
func (l *Listener) Addr() net.Addr { return l.addr }

// Address is the endpoint's.
func (l *Listener) Address() efa.Address { return l.hub.ep.Address() }

// Close ends listening: connections that nobody has accepted are closed, others go on. The
// endpoint closes with the last of them.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return opError("close", nil, l.addr, net.ErrClosed)
	}
	l.ended = true
	l.mu.Unlock()
	l.hub.to.Store(nil)
	l.limit.end(net.ErrClosed)
	if l.stop != nil {
		l.stop()
	}
	l.giving.Wait()
	var closing sync.WaitGroup // at once: a Close may wait for the other side
	for {
		select {
		case c := <-l.queue:
			c.reset(syscall.ECONNRESET)
			closing.Go(func() { _ = c.Close() }) // the first call has no error
		default:
			closing.Wait()
			l.hub.release()
			return nil
		}
	}
}
