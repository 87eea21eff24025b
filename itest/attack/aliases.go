package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// aliases has a foe that states addresses of several paths, of which one is its own and the others
// are a legitimate process' ones, to efanet and to remote. The legitimate process does not notice.
func (t *trial) aliases() (err error) {
	v, err := openService(context.Background(), t.setup(), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	c, err := openClient(context.Background(), t.setup())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	at, actors := v.l.Address().String(), v.r.Address()
	if err := t.within("dial", func(ctx context.Context) error { return c.keep(ctx, at) }); err != nil {
		return err
	}
	_ = t.within("request", func(ctx context.Context) error { return c.ask(ctx, actors) })
	prey, err := efa.ParseAddress(c.kept.LocalAddr().String())
	if err != nil {
		return err
	}
	for n := uint64(0); n < 8 || t.ctx.Err() == nil; n++ {
		if err := t.alias(v, prey, c.ep.Address(), n); err != nil {
			return err
		}
		if t.within("exchange by a connection whose address a foe has stated", func(ctx context.Context) error { return exchange(ctx, c.kept) }) != nil ||
			t.within("dial of a process whose address a foe has stated", func(ctx context.Context) error { return c.once(ctx, at) }) != nil ||
			t.within("request of a process whose address a foe has stated", func(ctx context.Context) error { return c.ask(ctx, actors) }) != nil {
			return nil // once is enough
		}
	}
	return nil
}

// settles is for how long a foe's frame is left alone to do its harm.
const settles = 50 * time.Millisecond

// alias has a new foe on one path, which states that it is on the other path, too.
func (t *trial) alias(v *service, prey, preysActors efa.Address, n uint64) error {
	r := t.role
	mine, other := "tcp", "shm"
	if n&1 == 1 {
		mine, other = other, mine
	}
	if r.Device = mine; mine == "shm" {
		r.Device = "auto" // the directory that all of the user's processes share
	}
	victim, of := v.l.Address(), prey
	if n&2 == 2 {
		victim, of = v.ep.Address(), preysActors
	}
	l, err := newLiar(context.Background(), r.setup(), on(victim, mine))
	if err != nil {
		return err
	}
	lie := on(of, other).String() + ";" + on(l.ep.Address(), mine).String()
	if n&4 == 4 {
		lie = on(l.ep.Address(), mine).String() + ";" + on(of, other).String()
	}
	call := func(ctx context.Context) error {
		if n&2 == 2 {
			t.did("remote from "+mine, 1)
			return l.act(ctx, actHello, 1+n, saying(lie, lie))
		}
		t.did("efanet from "+mine, 1)
		return l.net(ctx, laneOpen, 0, netOpen, 1, opening(77, 12345, lie))
	}
	_ = t.ends(fmt.Sprintf("a foe's frame of %s", lie), t.mortal(), call) // which may be refused
	_ = pause(t.ctx, settles)
	return l.ep.Close()
}

// on is the part of an address on one kind of device.
func on(a efa.Address, scheme string) efa.Address {
	raw, _ := a.Raw(scheme)
	return efa.NewAddress(scheme, raw)
}
