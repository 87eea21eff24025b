package efanet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// Dialer opens connections. Its zero value works, and so does that of one which is copied before
// its first use. All methods may be called by any number of goroutines.
type Dialer struct {
	// Setup says what endpoint the connections are on, which the Dialer opens once; nil: an
	// endpoint that all such Dialers of the process share, on the device that the address asks
	// for.
	Setup *efa.Setup
	// Timeout is the most time for opening a connection, beside that of the context; 0: none.
	Timeout time.Duration

	own hubs
}

// Dial opens a connection with a Dialer that is zero. grpc.WithContextDialer takes it as it is.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(Dialer).Dial(ctx, addr)
}

// DialContext is Dial for http.Transport and others that name a network, which does not matter.
func (d *Dialer) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	return d.Dial(ctx, addr)
}

// Dial opens a connection to a listener: addr is the text of its address, or host:port if it
// listens there. Where nobody listens, and where the backlog is full, the error is
// syscall.ECONNREFUSED, at once.
func (d *Dialer) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	c, err := d.dial(ctx, addr)
	if err != nil {
		return nil, callError("dial", addr, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, addr string) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if addr == "" {
		return nil, fmt.Errorf("%w: no address", efa.ErrInvalid)
	}
	device, err := deviceFor(addr)
	if err != nil {
		return nil, err
	}
	at, s := &shared, efa.Setup{Fabric: efa.Config{DeviceName: device}}
	if d.Setup != nil {
		at, s, device = &d.own, *d.Setup, ""
	}
	h, err := at.get(ctx, device, s)
	if err != nil {
		return nil, err
	}
	defer h.release()
	a, err := resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	p, err := h.join(a)
	if err != nil {
		return nil, err
	}
	return newConn(h, p).open(ctx)
}

// open asks the other side for the connection and waits for its answer.
func (c *Conn) open(ctx context.Context) (*Conn, error) {
	o := open{c.id, accepted{window, c.peer.mine}, c.hub.ep.Address().String()}
	err := c.hub.ep.SendTag(ctx, c.peer.at, laneOpen.tag(0), o.marshal(), efa.Data(head(kindOpen, version)))
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
			c.leave()
			return nil, err
		}
	} else if err = c.answered(ctx); err == nil {
		return c, nil
	}
	if ctx.Err() == nil {
		c.leave()
		return nil, err
	}
	go c.abandon()
	return nil, ctx.Err()
}

// answered waits for ACCEPT or REFUSE.
func (c *Conn) answered(ctx context.Context) error {
	d, err := c.next(ctx, laneBack)
	if err != nil {
		return err
	}
	defer d.Release()
	f, err := parse(laneBack, &d.Message)
	switch {
	case err != nil:
		return err
	case f.kind == kindRefuse:
		return refusal(f.value)
	case f.kind != kindAccept:
		return violation("a frame of kind %d in answer to OPEN", f.kind)
	}
	a, err := parseAccepted(d.Body)
	if err != nil {
		return err
	}
	c.begin(f.value, a)
	return nil
}

// abandon waits for the answer that the caller did not wait for, and closes the connection if
// there is one.
func (c *Conn) abandon() {
	ctx, cancel := context.WithTimeout(c.hub.ctx, lingerPeer)
	defer cancel()
	if c.answered(ctx) != nil {
		c.leave()
		return
	}
	_ = c.Close() // the first call has no error
}

// hubs are endpoints for dialing, by device. They are closed when their last connection is.
type hubs struct {
	mu  sync.Mutex
	has map[string]*opened
}

// opened is a hub, or one that a call is about to open.
type opened struct {
	done chan struct{} // closed: what follows is there
	h    *hub
	err  error
}

// shared has those of the process.
var shared hubs

// get begins a use of the hub on a device, which it opens if need be. Calls for the same device wait
// for the one that does, each as long as it likes to.
func (s *hubs) get(ctx context.Context, device string, setup efa.Setup) (*hub, error) {
	for {
		o, mine := s.at(device)
		if mine {
			o.h, o.err = openHub(ctx, setup)
			if o.err != nil {
				s.drop(device, o)
			}
			close(o.done)
			return o.h, o.err
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if o.err == nil && o.h.use() {
			return o.h, nil
		}
		s.drop(device, o) // this call, or another one, opens the next
	}
}

// at is what there is for a device; mine: the caller is to open it.
func (s *hubs) at(device string) (o *opened, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.has[device]; o != nil {
		return o, false
	}
	if s.has == nil {
		s.has = map[string]*opened{}
	}
	o = &opened{done: make(chan struct{})}
	s.has[device] = o
	return o, true
}

// drop forgets what has ended, or was never opened.
func (s *hubs) drop(device string, o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[device] == o {
		delete(s.has, device)
	}
}
