package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
)

// scarceRole is a server whose descriptors run out for a while.
const scarceRole = "scarce"

// The server does these at an order.
const (
	doLower = "lower"
	doRaise = "raise"
	doReach = "reach"
	doTry   = "try" // for a short time
)

// descriptors has a server that has no descriptor left for a while. New clients come meanwhile, and
// the server itself turns to processes that it does not know. What fails ends, what needs no
// descriptor goes on, and everything works as soon as there are descriptors again.
func (t *trial) descriptors() error {
	server, err := t.child(scarceRole, func(*role) {})
	if err != nil {
		return err
	}
	defer server.kill()
	n, err := server.await("address", 20*time.Second, func(n *news) bool { return n.Card != nil })
	if err != nil {
		return err
	}
	at, actors := n.Texts[0], n.Texts[1]
	c, err := openClient(context.Background(), t.setup())
	if err != nil {
		return err
	}
	if err := t.within("dial", func(ctx context.Context) error { return c.keep(ctx, at) }); err != nil {
		return errors.Join(err, c.close())
	}
	for round := 0; round < 1 || t.ctx.Err() == nil; round++ {
		ok, err := t.scarcity(server, c, at, actors)
		if err != nil {
			return errors.Join(err, c.close())
		}
		if !ok {
			break // it goes on failing
		}
	}
	return c.close()
}

// tell has the server do something, and returns what it says of it.
func (t *trial) tell(server *proc, o order) ([]string, error) {
	if err := server.orders.Encode(o); err != nil {
		return nil, err
	}
	n, err := server.await(o.Do, 2*t.mortal(), func(n *news) bool { return n.Did == o.Do })
	if err != nil {
		return nil, err
	}
	return n.Texts, nil
}

// scarcity is one round. It reports false once something does not come back.
func (t *trial) scarcity(server *proc, c *client, at, actors string) (ok bool, err error) {
	v, err := openService(context.Background(), t.setup(), "") // which the server has not met
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	received := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { cancel(); <-received }()
	target, err := efa.OpenEndpoint(context.Background(), t.setup())
	if err != nil {
		close(received)
		return false, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	go func() {
		defer close(received)
		for ctx.Err() == nil {
			if d, err := target.NextTag(ctx, efa.Match{Ignore: ^uint64(0)}); err == nil {
				d.Release()
			}
		}
	}()
	reach := order{Do: doReach, Meet: &card{Address: target.Address(), Is: v.l.Address().String()}}
	if _, err := t.tell(server, order{Do: doLower}); err != nil {
		return false, err
	}
	for range 2 + t.rng.IntN(3) {
		t.newcomer(at, actors)
		_ = t.within("exchange with a process without descriptors", func(ctx context.Context) error { return exchange(ctx, c.kept) })
		texts, err := t.tell(server, order{Do: doTry, Meet: reach.Meet})
		if err != nil {
			return false, err
		}
		t.did("failed to reach", uint64(len(texts)))
		_ = pause(t.ctx, time.Duration(t.rng.IntN(300))*time.Millisecond)
	}
	if _, err := t.tell(server, order{Do: doRaise}); err != nil {
		return false, err
	}
	t.did("scarcity", 1)
	texts, err := t.tell(server, reach)
	if err != nil {
		return false, err
	}
	for _, text := range texts {
		t.w.wrong("with its descriptors back, the server fails at %s", text)
	}
	ok = t.within("exchange after descriptors came back", func(ctx context.Context) error { return exchange(ctx, c.kept) }) == nil &&
		t.within("dial after descriptors came back", func(ctx context.Context) error { return c.once(ctx, at) }) == nil &&
		t.within("request after descriptors came back", func(ctx context.Context) error { return c.ask(ctx, actors) }) == nil
	n, err := openClient(context.Background(), t.setup())
	if err != nil {
		return false, err
	}
	ok = t.within("a new process' dial after descriptors came back", func(ctx context.Context) error { return n.once(ctx, at) }) == nil &&
		t.within("a new process' request after descriptors came back", func(ctx context.Context) error { return n.ask(ctx, actors) }) == nil &&
		len(texts) == 0 && ok
	return ok, n.close()
}

// newcomer is a client that comes while there are no descriptors: each of its calls ends.
func (t *trial) newcomer(at, actors string) {
	n, err := openClient(context.Background(), t.setup())
	if err != nil {
		t.w.wrong("opening a client: %v", err)
		return
	}
	short := func(f func(context.Context, string) error, address string) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limitOf)
			defer cancel()
			return f(ctx, address)
		}
	}
	if t.ends("dial of a process without descriptors", t.mortal(), short(n.once, at)) != nil {
		t.did("failed dial", 1)
	}
	if t.ends("request to a process without descriptors", t.mortal(), short(n.ask, actors)) != nil {
		t.did("failed request", 1)
	}
	_ = t.ends("close of a client of a process without descriptors", t.mortal(), func(context.Context) error { return n.close() })
}

// runScarce is the server.
func runScarce(r role, in io.Reader, out *line) error {
	ctx := context.Background()
	v, err := openService(ctx, r.setup(), net.JoinHostPort("127.0.0.1", "0"))
	if err != nil {
		return err
	}
	own, err := efa.OpenEndpoint(ctx, r.setup())
	if err != nil {
		return err
	}
	s := r.setup()
	dialer := &efanet.Dialer{Setup: &s}
	all := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &all); err != nil {
		return err
	}
	out.say(news{Card: &card{Address: own.Address()}, Texts: []string{v.l.Addr().String(), v.r.Address()}})
	for orders := json.NewDecoder(in); ; {
		var o order
		if orders.Decode(&o) != nil {
			os.Exit(0)
		}
		n := news{Did: o.Do}
		switch o.Do {
		case doLower:
			err = lower()
		case doRaise:
			err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &all)
		case doReach:
			n.Texts = reach(own, dialer, o.Meet, r.Steady)
		case doTry:
			n.Texts = reach(own, dialer, o.Meet, limitOf)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Do, err)
		}
		out.say(n)
	}
}

// lower leaves this process the descriptors that it has.
func lower() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	free := uint64(f.Fd()) // what the next one has
	l := syscall.Rlimit{}
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l), f.Close()); err != nil {
		return err
	}
	l.Cur = free
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}

// reach turns to processes that this one may not know yet, and says what fails.
func reach(own *efa.Endpoint, dialer *efanet.Dialer, to *card, most time.Duration) (texts []string) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	at, err := own.AddressVector().Insert(to.Address)
	if err == nil {
		err = own.SendTag(ctx, at, 1, []byte("first contact"), efa.Complete(efa.Delivered))
	}
	if err != nil {
		texts = append(texts, "a message: "+err.Error())
	}
	c := client{dialer: dialer}
	if err := c.once(ctx, to.Is); err != nil {
		texts = append(texts, "a dial: "+err.Error())
	}
	return texts
}
