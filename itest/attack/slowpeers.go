package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/api/remote"
	"github.com/efactor/efactor/runtime/clock"
)

// limitOf is how long calls to slow peers may take by their deadline or context.
const limitOf = 300 * time.Millisecond

// slowCases are peers that live, and do not do their part.
var slowCases = []struct {
	name string
	meet func(*trial, *service) error
}{
	{"grants", (*trial).grants},
	{"half accepted", (*trial).neverAnswers},
	{"one byte a second", (*trial).oneByte},
	{"accepts and reads nothing", (*trial).readsNothing},
	{"backlog", (*trial).backlog},
	{"offers", (*trial).offers},
	{"no welcome", (*trial).noWelcome},
	{"takes no messages", (*trial).takesNothing},
}

// slow has peers of efanet and remote that are silent or slow. Each call ends by its deadline, its
// context or its timeout, and Close ends at once; others are served meanwhile.
func (t *trial) slow() (err error) {
	v, err := openService(context.Background(), t.setup(), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	hung := map[string]bool{}
	for n := 0; n < len(slowCases) || t.ctx.Err() == nil; n++ {
		s := slowCases[n%len(slowCases)]
		if hung[s.name] || t.Only != "" && !slices.Contains(strings.Split(t.Only, ","), s.name) {
			continue
		}
		err := s.meet(t, v)
		hung[s.name] = errors.Is(err, errHangs) // once is enough
		if err != nil && !hung[s.name] {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		t.did(s.name, 1)
	}
	return nil
}

// late makes a call that is to end with its deadline's error.
func (t *trial) late(what string, f func(context.Context) error) error {
	err := t.ends(what, limitOf+t.Steady, f)
	if errors.Is(err, errHangs) {
		return err
	}
	var e net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) && (!errors.As(err, &e) || !e.Timeout()) && !errors.Is(err, context.DeadlineExceeded) {
		t.w.wrong("%s: it ends with %v, not its deadline's error", what, err)
	}
	return nil
}

// endsNow makes a call that ends at once, well or not.
func (t *trial) endsNow(what string, f func() error) error {
	if err := t.ends(what, t.Steady, func(context.Context) error { return f() }); errors.Is(err, errHangs) {
		return err
	}
	return nil
}

// writeLate writes more than the other side takes.
func (t *trial) writeLate(what string, c net.Conn, n, piece int) error {
	return t.late("Write to a peer that "+what, func(context.Context) error {
		if err := c.SetWriteDeadline(clock.Deadline(limitOf)); err != nil {
			return err
		}
		b := make([]byte, piece)
		for range n / piece {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *trial) readLate(what string, c net.Conn) error {
	return t.late("Read from a peer that "+what, func(context.Context) error {
		if err := c.SetReadDeadline(clock.Deadline(limitOf)); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1<<20))
		return err
	})
}

// against has a foe open a connection to a listener of ours, and closes both sides in the end.
func (t *trial) against(f func(l *liar, id uint64, c net.Conn) error) error {
	s := t.setup()
	opened, err := (&efanet.ListenConfig{Setup: &s}).Listen(context.Background(), "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
	defer cancel()
	l, err := newLiar(ctx, t.setup(), opened.(*efanet.Listener).Address())
	if err != nil {
		return err
	}
	id, err := l.connect(ctx, 77)
	if err != nil {
		return err
	}
	c, err := opened.Accept()
	if err != nil {
		return err
	}
	if err := f(l, id, c); err != nil {
		return err
	}
	if err := t.endsNow("Close of a connection to a slow peer", c.Close); err != nil {
		return err
	}
	if err := t.endsNow("Close of a listener with a slow peer", opened.Close); err != nil {
		return err
	}
	return l.ep.Close()
}

// grants: a peer grants what is offered to it, and never receives it.
func (t *trial) grants(*service) error {
	return t.against(func(l *liar, id uint64, c net.Conn) error {
		var granting sync.WaitGroup
		ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
		defer cancel()
		granting.Go(func() {
			d, err := l.ep.NextTag(ctx, efa.Match{Tag: netTag(laneStream, 77)})
			if err == nil {
				_ = l.net(ctx, laneBack, id, netGrant, d.Data&(1<<56-1), nil)
				d.Release()
			}
		})
		err := t.writeLate("grants and never receives", c, 1<<20, 1<<20)
		cancel()
		granting.Wait()
		return err
	})
}

// offers: a peer offers bytes, and never sends them.
func (t *trial) offers(*service) error {
	return t.against(func(l *liar, id uint64, c net.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
		defer cancel()
		if err := l.net(ctx, laneStream, id, netOffer, 1<<40|1<<20, nil); err != nil {
			return err
		}
		return t.readLate("offers and never sends", c)
	})
}

// dialing has one of our dialers, and closes its connection in the end.
func (t *trial) dialing(address string, f func(c net.Conn) error) error {
	s := t.setup()
	var c net.Conn
	err := t.ends("Dial of a slow peer", t.Steady, func(ctx context.Context) (err error) {
		c, err = (&efanet.Dialer{Setup: &s}).Dial(ctx, address)
		return err
	})
	if err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	return t.endsNow("Close of a connection to a slow peer", c.Close)
}

// neverAnswers: what is dialed is an endpoint that takes no connections, and says nothing.
func (t *trial) neverAnswers(*service) error {
	l, err := newLiar(context.Background(), t.setup(), efa.Address{})
	if err != nil {
		return err
	}
	s := t.setup()
	err = t.late("Dial of a peer that does not answer", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limitOf)
		defer cancel()
		c, err := (&efanet.Dialer{Setup: &s}).Dial(ctx, l.ep.Address().String())
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return errors.Join(err, l.ep.Close())
}

// readsNothing: a peer accepts, and leaves all that comes where it is.
func (t *trial) readsNothing(*service) error {
	l, err := newLiar(context.Background(), t.setup(), efa.Address{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
	defer cancel()
	var accepting sync.WaitGroup
	accepting.Go(func() { _, _ = l.acceptOne(ctx, 78) })
	err = t.dialing(l.ep.Address().String(), func(c net.Conn) error {
		if err := t.writeLate("accepts and takes nothing", c, 8<<20, 1000); err != nil {
			return err
		}
		if err := t.writeLate("accepts and takes nothing, at once", c, 1<<20, 1<<20); err != nil {
			return err
		}
		return t.readLate("accepts and says nothing", c)
	})
	accepting.Wait()
	return errors.Join(err, l.ep.Close())
}

// backlog: a listener never accepts.
func (t *trial) backlog(*service) error {
	s := t.setup()
	l, err := (&efanet.ListenConfig{Setup: &s}).Listen(context.Background(), "")
	if err != nil {
		return err
	}
	err = t.dialing(l.Addr().String(), func(c net.Conn) error {
		if err := t.writeLate("never accepts", c, 8<<20, 64<<10); err != nil {
			return err
		}
		return t.readLate("never accepts", c)
	})
	return errors.Join(err, t.endsNow("Close of a listener that never accepted", l.Close))
}

// oneByte: a peer reads one byte a second.
func (t *trial) oneByte(*service) error {
	s := t.setup()
	l, err := (&efanet.ListenConfig{Setup: &s}).Listen(context.Background(), "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for b := make([]byte, 1); err == nil && ctx.Err() == nil; _ = pause(ctx, time.Second) {
			_, err = c.Read(b)
		}
		_ = c.Close()
	})
	err = t.dialing(l.Addr().String(), func(c net.Conn) error {
		if err := t.writeLate("reads one byte a second", c, 8<<20, 8<<20); err != nil {
			return err
		}
		return t.readLate("reads one byte a second", c)
	})
	cancel()
	err = errors.Join(err, t.endsNow("Close of a listener with a slow reader", l.Close))
	reading.Wait()
	return err
}

// asking has a Remote of ours that has little room and patience, beside a foe.
func (t *trial) asking(v *service, f func(l *liar, system *actor.ActorSystem) error) error {
	l, err := newLiar(context.Background(), t.setup(), efa.Address{})
	if err != nil {
		return err
	}
	ep, err := efa.OpenEndpoint(context.Background(), t.setup())
	if err != nil {
		return err
	}
	system := quiet()
	cfg := remote.Config{Queue: 64 << 10, Patience: limitOf}
	r, err := cfg.Start(system, ep)
	if err != nil {
		return err
	}
	other := &client{system: system}
	if err := f(l, system); err != nil {
		return err
	}
	err = t.within("request of another process than a slow one", func(ctx context.Context) error { return other.ask(ctx, v.r.Address()) })
	if err != nil {
		return err
	}
	err = t.endsNow("Close of a Remote with a slow peer", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limitOf)
		defer cancel()
		return r.Close(ctx)
	})
	if err != nil {
		return err
	}
	system.Shutdown()
	return errors.Join(ep.Close(), l.ep.Close())
}

// noWelcome: a process does not answer.
func (t *trial) noWelcome(v *service) error {
	return t.asking(v, func(l *liar, system *actor.ActorSystem) error {
		return t.endsNow("request to a process that does not answer", func() error {
			pid := actor.NewPID(l.ep.Address().String(), echoActor)
			_, err := system.Root.RequestFuture(pid, &actor.Touch{}, limitOf).Result()
			return err
		})
	})
}

// takesNothing: a process answers, and then takes no messages.
func (t *trial) takesNothing(v *service) error {
	return t.asking(v, func(l *liar, system *actor.ActorSystem) error {
		ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
		defer cancel()
		var welcoming sync.WaitGroup
		welcoming.Go(func() {
			d, err := l.ep.NextTag(ctx, efa.Match{Tag: actHelloTag})
			if err != nil {
				return
			}
			theirs := binary.LittleEndian.Uint64(d.Body[1:])
			l.to, err = l.ep.Sender(d.Message)
			d.Release()
			if err == nil {
				_ = l.act(ctx, actWelcome, theirs, binary.LittleEndian.AppendUint64([]byte{actWelcome}, 78))
			}
		})
		pid := actor.NewPID(l.ep.Address().String(), echoActor)
		long := &actor.PID{Id: string(make([]byte, 8<<10))}
		for range 24 {
			err := t.endsNow("send to a process that takes no messages", func() error {
				system.Root.Send(pid, long)
				return nil
			})
			if err != nil {
				return err
			}
		}
		cancel()
		welcoming.Wait()
		return nil
	})
}
