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
// Setup.Fabric.TCP. ctx is for the opening alone.
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
	if err != nil {
		if rendezvous != nil {
			_ = rendezvous.Close() // nothing was sent
		}
		return nil, err
	}
	l := &Listener{hub: h, queue: make(chan *Conn, backlog), addr: h.local}
	l.limit.init()
	h.to.Store(l)
	if rendezvous != nil {
		l.addr = Addr{rendezvous.Addr().String()}
		ctx := l.closed()
		l.giving.Go(func() { _ = h.ep.Serve(ctx, rendezvous) })
	}
	return l, nil
}

// Listener takes connections. It is what Listen returns.
type Listener struct {
	hub    *hub
	addr   net.Addr
	limit  limit // of Accept
	giving sync.WaitGroup

	mu    sync.Mutex
	ended bool
	queue chan *Conn
	stop  context.CancelFunc
}

// closed is a context that ends with the listener.
func (l *Listener) closed() context.Context {
	ctx, stop := context.WithCancel(l.hub.ctx)
	l.stop = stop
	return ctx
}

// enqueue has a connection wait for Accept. It reports false if there is no room.
func (l *Listener) enqueue(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.queue) == cap(l.queue) {
		return false
	}
	if c.accept() != nil {
		return false
	}
	l.queue <- c
	return true
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		ctx := l.limit.ctx()
		if ctx.Err() == nil {
			select {
			case c := <-l.queue:
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

// serve takes what others open, until the endpoint ends. A listener that is still there by then
// learns why.
func (h *hub) serve() {
	err := h.take()
	if l := h.to.Load(); l != nil {
		l.limit.end(err)
	}
}

// take waits for channels, not on the endpoint: goroutines that wait for bytes drive the device, and
// are not to hand it to this one.
func (h *hub) take() error {
	type slot struct {
		op  *efa.Op
		buf []byte
	}
	var slots [openAhead]slot
	for i := range slots {
		slots[i].buf = make([]byte, maxOpen)
	}
	post := func(s *slot) (err error) {
		s.op, err = h.start(&efa.RecvReq{Tagged: true, Tag: laneOpen.tag(0), Buf: s.buf})
		return err
	}
	for i := range slots {
		if err := post(&slots[i]); err != nil {
			return err
		}
	}
	for i := 0; ; i = (i + 1) % openAhead {
		s := &slots[i]
		<-s.op.Done()
		c, err := s.op.Wait(h.ctx)
		if errors.Is(err, efa.ErrClosed) || errors.Is(err, efa.ErrIO) {
			return err
		}
		if err == nil {
			h.opened(&c.Message, s.buf[:c.N])
		}
		if err := post(s); err != nil {
			return err
		}
	}
}

// opened answers an OPEN or a PING. One that is none has no answer: there is nobody to give it to.
func (h *hub) opened(m *efa.Message, body []byte) {
	f, err := parse(laneOpen, m)
	switch {
	case err != nil:
		return
	case f.kind == kindPing:
		h.pinged(m, body)
		return
	}
	var o open
	if o.unmarshal(body) != nil || !isFrom(m, o.from) {
		return
	}
	p, err := h.join(o.from)
	if err != nil {
		if errors.Is(err, errMany) {
			h.refuse(o, refusedMany)
		}
		return
	}
	l := h.to.Load()
	c := newConn(h, p)
	c.begin(o.id, o.accepted)
	switch {
	case l == nil:
		h.refuse(o, refusedNobody)
	case !l.enqueue(c):
		h.refuse(o, refusedBacklog)
	default:
		return
	}
	go c.leave() // which may end the hub, and then waits for this goroutine
}

// accept lets the other side know that its connection is there.
func (c *Conn) accept() error {
	return c.hub.ep.SendTag(c.hub.ctx, c.peer.at, laneBack.tag(c.to), accepted{window, c.peer.mine}.append(nil),
		efa.Inject, efa.Data(head(kindAccept, c.id)))
}

func (h *hub) refuse(o open, why refusal) {
	at, err := h.ep.AddressVector().Insert(o.from)
	if err != nil {
		return // it cannot be reached
	}
	_ = h.ep.SendTag(h.ctx, at, laneBack.tag(o.id), nil, efa.Inject, efa.Data(head(kindRefuse, uint64(why))))
}

// isFrom reports whether an address that a message states is its sender's.
func isFrom(m *efa.Message, a efa.Address) bool {
	for _, scheme := range []string{"shm", "tcp", "efa", "sim"} {
		if raw, ok := a.Raw(scheme); ok && raw == m.Raw() {
			return true
		}
	}
	return false
}
