package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	placesRole = "places" // receives from processes that start again at their places
	comersRole = "comers" // is one of those, in one of its lives
	sendsEach  = 3
)

// restarts has a process with many endpoints that is killed and starts again at its places, while
// a server pauses, so that it learns of all of them at once. Each send of the next life ends, and
// what ended well has come.
func (t *trial) restarts() error {
	server, err := t.child(placesRole, func(*role) {})
	if err != nil {
		return err
	}
	defer server.kill()
	n, err := server.await("address", 20*time.Second, func(n *news) bool { return n.Card != nil })
	if err != nil {
		return err
	}
	first := uint16(17000 + t.rng.IntN(10000))
	for round := 0; round < 1 || t.ctx.Err() == nil; round++ {
		if err := t.restart(server, n.Card.Address, round, first); err != nil {
			return err
		}
	}
	_ = server.orders.Encode(order{Close: true})
	_, err = server.await("close", t.mortal(), func(n *news) bool { return n.Closed })
	return err
}

// restart is one round.
func (t *trial) restart(server *proc, at efa.Address, round int, first uint16) error {
	endpoints := 1 + t.rng.IntN(32)
	away := time.Duration(50+t.rng.IntN(550)) * time.Millisecond
	delivered := ""
	if t.rng.IntN(2) == 0 {
		delivered = "delivered"
	}
	life := func(n int) (*proc, error) {
		return t.child(comersRole, func(r *role) {
			r.Life, r.QPN, r.N, r.Only, r.At = 2*round+n, first, endpoints, delivered, []efa.Address{at}
		})
	}
	sent := func(n *news) bool { return n.Did == "sent" }
	before, err := life(0)
	if err != nil {
		return err
	}
	defer before.kill()
	if _, err := before.await("first sends", 2*t.mortal(), sent); err != nil {
		return err
	}
	_ = server.cmd.Process.Signal(syscall.SIGSTOP)
	before.kill()
	after, err := life(1)
	_ = pause(t.ctx, away)
	_ = server.cmd.Process.Signal(syscall.SIGCONT)
	if err != nil {
		return err
	}
	defer after.kill()
	end, err := after.await("sends", 3*t.mortal(), sent)
	if err != nil {
		return err
	}
	t.did("restarts", 1)
	t.did("sent", uint64(len(end.Sent)))
	for _, text := range end.Texts {
		t.did("refused", 1)
		if round == 0 {
			_, _ = fmt.Fprintln(os.Stderr, text)
		}
	}
	missing, of := 0, 0
	for _, w := range end.Sent {
		of += int(w.N) - len(w.Failed)
	}
	_ = server.orders.Encode(order{Settle: true, Expect: expected(end.Sent)})
	n, err := server.await("what came", 2*t.mortal(), func(n *news) bool { return n.Settled })
	if err != nil {
		return err
	}
	got := map[stream]*gotLog{}
	for i := range n.Got {
		got[n.Got[i].Stream] = &n.Got[i]
	}
	for _, w := range end.Sent {
		g := got[w.Stream]
		if g == nil {
			g = &gotLog{}
		}
		missing += len(w.lost(g))
	}
	if missing > 0 {
		t.w.wrong("round %d: of %d messages that %d endpoints at their former places were told are sent, %d never came (the server paused for %v; %s)",
			round, of, endpoints, missing, away, delivered)
	}
	if len(end.Report.Slow) > 0 {
		t.w.wrong("round %d: %s has taken %v", round, end.Report.Slow[0].What, end.Report.Slow[0].To.Sub(end.Report.Slow[0].From))
	}
	return nil
}

// expected is what has to come of what was sent.
func expected(sent []sentLog) (list []gotLog) {
	for _, s := range sent {
		list = append(list, gotLog{Stream: s.Stream, Next: s.lastOK()})
	}
	return list
}

// runPlaces is the server: it takes what comes.
func runPlaces(r role, in io.Reader, out *line) error {
	ctx, cancel := context.WithCancel(context.Background())
	ep, err := efa.OpenEndpoint(ctx, r.setup())
	if err != nil {
		cancel()
		return err
	}
	p := &peer{role: r, w: newWatch(), ep: ep, ctx: ctx}
	p.inbox.got, p.inbox.news = map[stream]*gotLog{}, make(chan struct{}, 1)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for ctx.Err() == nil {
			d, err := ep.Next(ctx)
			if err != nil {
				continue // of a sender that has died
			}
			s, seq, err := unseal(d.Body)
			if err == nil {
				err = p.inbox.take(s, seq)
			}
			if err != nil {
				p.w.wrong("%v", err)
			}
			d.Release()
		}
	})
	out.say(news{Card: &card{Address: ep.Address()}})
	for orders := json.NewDecoder(in); ; {
		var o order
		if orders.Decode(&o) != nil || o.Close {
			break
		}
		n := p.inbox.settle(ctx, o.Expect, p.mortal())
		n.Report = p.w.report()
		out.say(n)
	}
	cancel()
	receiving.Wait()
	err = ep.Close()
	out.say(news{Closed: true, Report: p.w.report()})
	return err
}

// runComers is a life of the process that is killed.
func runComers(r role, in io.Reader, out *line) error {
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0)
	}()
	t := &trial{role: r, w: newWatch(), ctx: context.Background(), kinds: map[string]uint64{}}
	fab, err := efa.Open(r.setup().Fabric)
	if err != nil {
		return err
	}
	dom, err := fab.OpenDomain(r.setup().Domain)
	if err != nil {
		return err
	}
	logs, texts := make([]sentLog, r.N), make([][]string, r.N)
	var sending sync.WaitGroup
	for i := range r.N {
		cfg := r.setup().Endpoint
		cfg.QPN = r.QPN + uint16(i)
		ep, to, err := takePlace(dom, cfg, r.At[0], r.mortal())
		if err != nil {
			return fmt.Errorf("endpoint %d: %w", i, err)
		}
		logs[i].Stream = stream{From: i, FromLife: r.Life}
		sending.Go(func() { texts[i] = t.come(ep, to, &logs[i]) })
	}
	sending.Wait()
	n := news{Did: "sent", Sent: logs, Report: t.w.report()}
	for _, list := range texts {
		n.Texts = append(n.Texts, list...)
	}
	out.say(n)
	select {} // it is killed
}

// takePlace opens an endpoint at a place that a process which was killed a moment ago had.
func takePlace(dom *efa.Domain, cfg efa.EndpointConfig, server efa.Address, most time.Duration) (*efa.Endpoint, efa.Addr, error) {
	cfg.AV = dom.NewAddressVector()
	to, err := cfg.AV.Insert(server)
	if err != nil {
		return nil, 0, err
	}
	for began := clock.System.Now(); ; _ = pause(context.Background(), time.Millisecond) {
		ep, err := dom.NewEndpoint(cfg)
		if err == nil {
			if err = ep.Enable(context.Background()); err == nil {
				return ep, to, nil
			}
			err = errors.Join(err, ep.Close())
		}
		if clock.System.Now().Sub(began) > most {
			return nil, 0, err
		}
	}
}

// come sends what an endpoint has to say in this life, at once: a receiver that knows another one at
// this place has to keep or hold back all of it.
func (t *trial) come(ep *efa.Endpoint, to efa.Addr, l *sentLog) (texts []string) {
	level := efa.Transmitted
	if t.Only != "" {
		level = efa.Delivered
	}
	rng := rand.New(rand.NewPCG(t.Seed, uint64(t.Life)<<16|uint64(l.Stream.From)))
	var ops []*efa.Op
	for range sendsEach {
		b := make([]byte, headLen+rng.IntN(2)*rng.IntN(48<<10))
		l.Stream.seal(b, l.N)
		op, err := ep.Start(&efa.SendReq{To: to, Buf: b, Level: level})
		if err != nil {
			l.Failed = append(l.Failed, l.N)
			texts = append(texts, fmt.Sprintf("starting a send of endpoint %d: %v", l.Stream.From, err))
			op = nil
		}
		ops = append(ops, op)
		l.N++
	}
	for i, op := range ops {
		if op == nil {
			continue
		}
		what := fmt.Sprintf("send %d of endpoint %d, in life %d", i, l.Stream.From, t.Life)
		err := t.ends(what, t.mortal(), func(ctx context.Context) error {
			done, err := op.Wait(ctx)
			if err == nil {
				err = done.Err
			}
			return err
		})
		if err != nil {
			l.Failed = append(l.Failed, uint64(i))
			texts = append(texts, fmt.Sprintf("%s: %v", what, err))
		}
	}
	return texts
}
