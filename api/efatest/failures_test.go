package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// afterlife is how long after its death an endpoint comes back. Packets of the dead
// one have arrived by then: a later one would look like the newer of the two.
const afterlife = time.Millisecond

// strike lets what a seed has in store happen when its time has come.
func (r *run) strike() {
	if r.struck || r.sent < r.p.strikeAt {
		return
	}
	r.struck = true
	switch r.p.flavor {
	case casualty:
		r.die(r.cast[r.p.victim])
	case fickle:
		if n := r.cast[r.p.remover]; r.p.remover != r.p.removed && r.alone(n) {
			r.w.Go(fmt.Sprintf("remove %d at %d", r.p.removed, n.id), n.remove)
		}
	case calm, numFlavors:
	}
}

// alone reports whether n has its address vector for itself.
func (r *run) alone(n *node) bool {
	for _, x := range r.cast {
		if x != n && x.host == n.host {
			return false
		}
	}
	return true
}

// remove takes a peer out of the address vector. It comes back when it is used.
func (n *node) remove(ctx context.Context) error {
	p := n.run.p
	h := n.handle(p.removed)
	n.removed, n.removing = n.run.cast[p.removed], true
	if err := n.host.av.Remove(ctx, h); err != nil {
		return fmt.Errorf("remove %d: %w", p.removed, err)
	}
	n.removing = false
	delete(n.handles, p.removed)
	n.run.stats["removed"]++
	if err := n.run.w.Sleep(p.pause); err != nil {
		return err
	}
	n.handle(p.removed)
	return nil
}

// await lets n's other programs wait while one of them removes a peer: its handle
// may mean another as soon as that is done.
func (n *node) await(to int) error {
	for n.removing && n.removed.id == to {
		if err := n.run.w.Sleep(lap); err != nil {
			return err
		}
	}
	return nil
}

// wasRemoved reports whether an error is that of operations with a removed peer:
// those that were in progress.
func (n *node) wasRemoved(id int, err error) bool {
	return n.removed != nil && n.removed.id == id && errors.Is(err, efa.ErrCanceled)
}

func (r *run) die(n *node) {
	n.diedAt = max(r.w.Elapsed(), 1)
	r.sending++
	if r.p.kill {
		r.w.Logf("kill %d", n.id)
		n.host.dev.Kill()
		if near := n.host.near; near != nil {
			near.Kill()
		}
	}
	r.w.Go(fmt.Sprintf("end of %d", n.id), func(ctx context.Context) error { return r.end(ctx, n) })
}

// end closes the victim and brings it back.
func (r *run) end(ctx context.Context, n *node) error {
	defer func() { r.sending-- }()
	if r.p.kill && r.p.seed%2 == 0 {
		// Its own operations notice that there are no answers.
		if err := r.w.Sleep(2 * bound); err != nil {
			return err
		}
	}
	if err := n.leave(ctx); err != nil {
		return fmt.Errorf("close the victim: %w", err)
	}
	r.stats["closed"]++
	if r.p.kill {
		r.stats["killed"]++
	}
	if !r.p.restart {
		return nil
	}
	if err := r.w.Sleep(afterlife); err != nil {
		return err
	}
	for n.sendsOut+n.recvsOut > 0 { // its programs read its queues to the end
		if err := r.w.Sleep(lap); err != nil {
			return err
		}
	}
	r.close(n.host, true)
	hp := r.p.at(n.id)
	dc := hp.dev
	dc.GID = n.raw.GID()
	h, err := r.newHost(hp, dc, n.near.GID())
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	r.hosts[n.plan.host] = h
	np := *n.plan
	np.cfg.QPN, np.recvs, np.bystand = n.raw.QPN(), nil, 0
	if err := r.join(&np, h, false); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	n.replaced = true
	r.stats["restarted"]++
	r.greet(r.cast[len(r.cast)-1])
	return nil
}

// greet has the one that came back and the survivors send to each other.
func (r *run) greet(back *node) {
	r.w.Go(fmt.Sprintf("rx %d", back.id), back.recvAll)
	var mine []task
	for _, x := range r.cast {
		if x.doomed || x == back {
			continue
		}
		mine = append(mine, task{m: r.message(back.id, x.id)})
		r.sending++
		list := []*message{r.message(x.id, back.id), r.message(x.id, back.id)}
		r.w.Go(fmt.Sprintf("tx %d to %d", x.id, back.id), func(ctx context.Context) error {
			defer func() { r.sending-- }()
			// It hears of the other before it knows it, which then is on trial.
			if (r.p.seed>>2+uint64(x.id))%2 == 0 {
				if err := r.w.Sleep(afterlife); err != nil {
					return err
				}
			}
			for _, m := range list {
				if err := x.send(ctx, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r.sending++
	r.w.Go(fmt.Sprintf("tx %d", back.id), func(ctx context.Context) error { return back.sendAll(ctx, mine) })
}

// message makes one more, of a size that any protocol may carry.
func (r *run) message(from, to int) *message {
	id := len(r.msgs)
	m := &message{Msg: model.Msg{ID: id, From: from, To: to, Len: 8 << (id % 15)}, style: blocking, pieces: 1}
	m.Tagged = id%2 == 0
	m.Tag = uint64(id)
	if !m.Tagged {
		m.Tag = 0
	}
	r.msgs = append(r.msgs, m)
	return m
}
