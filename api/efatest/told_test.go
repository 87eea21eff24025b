package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// told is a seed in which an endpoint sends to others, and closes. The rule: each of them
// receives all of which the send was over, in order, then learns that the sender has closed;
// what is for anybody stays.
type told struct {
	w      *efatest.World
	d      *rand.Rand
	eps    []*efa.Endpoint // the first is the one that closes
	to     []efa.Addr      // its handles of the others
	from   []efa.Addr      // theirs of it
	sent   [][][]byte      // to each, of which the send was over
	closed bool
	heard  int
}

func newTold(seed uint64, queued bool) (*told, error) {
	r := &told{d: rand.New(rand.NewPCG(seed, 0x701d))}
	fabric := efatest.FabricConfig{ReportGone: true, InOrder: r.d.IntN(4) == 0}
	if r.d.IntN(2) == 0 {
		fabric.Delay, fabric.Jitter = 5*time.Microsecond, time.Duration(r.d.IntN(200))*time.Microsecond
	}
	var err error
	if r.w, err = efatest.New(efatest.Config{Seed: seed, Fabric: fabric}); err != nil {
		return nil, err
	}
	if queued {
		r.w.QueueAll()
	}
	for _, rule := range []sim.Rule{
		{Fault: sim.FaultRNR, P: .2},
		{Fault: sim.FaultLateStatus, P: .3, Delay: 300 * time.Microsecond},
		{Fault: sim.FaultDelay, P: .2, Delay: 300 * time.Microsecond},
		{Fault: sim.FaultUnknownAH, P: .3},
	} {
		if r.d.IntN(3) == 0 {
			if _, err := r.w.Fabric().AddRule(rule); err != nil {
				return nil, err
			}
		}
	}
	for i := range 2 + r.d.IntN(3) {
		dev, err := r.w.Device(sim.DeviceConfig{RDMARead: r.d.IntN(2) == 0})
		if err != nil {
			return nil, err
		}
		p := efa.ProtocolConfig{ProbeAfter: time.Second, PeerTimeout: 5 * time.Second, SendQueue: 4 << r.d.IntN(4)}
		if i == 0 {
			efatest.KnobsOf(&p).HostID = seed | 1<<40
		}
		ep, err := efa.OpenEndpoint(context.Background(), efa.Setup{Fabric: efa.Config{Device: dev}, Endpoint: efa.EndpointConfig{Protocol: p}})
		if err != nil {
			return nil, err
		}
		r.eps = append(r.eps, ep)
	}
	r.to, r.from, r.sent = make([]efa.Addr, len(r.eps)), make([]efa.Addr, len(r.eps)), make([][][]byte, len(r.eps))
	for i, ep := range r.eps[1:] {
		if r.to[i+1], err = r.eps[0].AddressVector().Insert(ep.Address()); err != nil {
			return nil, err
		}
		if r.from[i+1], err = ep.AddressVector().InsertValue(r.eps[0].Address(), "the sender"); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// send is the program of the endpoint that closes.
func (r *told) send(ctx context.Context) error {
	ep := r.eps[0]
	for n := len(r.eps) + r.d.IntN(40); n > 0; n-- {
		i := 1 + n%(len(r.eps)-1)
		b := make([]byte, r.d.IntN(1<<r.d.IntN(18)))
		for k := range b {
			b[k] = byte(k + n)
		}
		var opts []efa.OpOption
		if r.d.IntN(4) == 0 {
			opts = append(opts, efa.Complete(efa.Delivered))
		}
		if err := ep.Send(ctx, r.to[i], b, opts...); err != nil {
			return fmt.Errorf("send %d: %w", n, err)
		}
		r.sent[i] = append(r.sent[i], b)
	}
	r.closed = true
	return ep.Close()
}

// one receives the next message, in one of the ways to do that.
func (r *told) one(ctx context.Context, i int) ([]byte, error) {
	ep, from := r.eps[i], efa.From(r.from[i])
	switch r.d.IntN(3) {
	case 0:
		buf := make([]byte, 1<<18)
		m, err := ep.Recv(ctx, buf, from)
		return buf[:m.N], err
	case 1:
		m, err := ep.Peek(ctx, efa.Wait, from)
		if err != nil {
			return nil, err
		}
		buf := make([]byte, m.N)
		_, err = ep.Recv(ctx, buf, from)
		return buf, err
	default:
		c, err := ep.Claim(ctx, efa.Wait, from)
		if err != nil {
			return nil, err
		}
		buf := make([]byte, c.Message.N)
		_, err = c.Recv(ctx, buf)
		return buf, err
	}
}

// receive is the program of the others.
func (r *told) receive(ctx context.Context, i int) error {
	ep := r.eps[i]
	for n := 0; ; n++ {
		got, err := r.one(ctx, i)
		switch {
		case errors.Is(err, efa.ErrPeerClosed):
			if !r.closed || n < len(r.sent[i]) {
				return fmt.Errorf("%d heard of the end after %d messages of %d, closed %v", i, n, len(r.sent[i]), r.closed)
			}
			for {
				ev, err := ep.NextEvent(ctx)
				if err != nil {
					return err
				}
				if ev.Kind == efa.PeerClosed {
					if ev.Peer != r.from[i] || ep.AddressVector().Value(ev.Peer) != "the sender" {
						return fmt.Errorf("the news are of %d", ev.Peer)
					}
					r.heard++
					return nil
				}
			}
		case err != nil:
			return fmt.Errorf("%d, message %d: %w", i, n, err)
		case n == 0:
			if err := r.snapshot(ctx, i); err != nil {
				return err
			}
		}
		if n < len(r.sent[i]) && !bytes.Equal(got, r.sent[i][n]) {
			return fmt.Errorf("%d: %d bytes came as message %d, not %d", i, len(got), n, len(r.sent[i][n]))
		}
		if r.d.IntN(4) == 0 {
			if err := r.w.Sleep(time.Duration(r.d.IntN(300)) * time.Microsecond); err != nil {
				return err
			}
		}
	}
}

// snapshot looks for the host id of the one that closes, if its HANDSHAKE has come.
func (r *told) snapshot(ctx context.Context, i int) error {
	s, err := r.eps[i].Snapshot(ctx)
	if err != nil {
		return err
	}
	for _, p := range s.Peers {
		known := p.Handshake == "both" || p.Handshake == "received"
		if known != (p.HostID>>40 == 1) {
			return fmt.Errorf("HANDSHAKE %s, host_id %#x", p.Handshake, p.HostID)
		}
	}
	return nil
}

func (r *told) run() error {
	r.w.Go("sender", r.send)
	for i := range r.eps[1:] {
		r.w.Go(fmt.Sprint("receiver ", i+1), func(ctx context.Context) error { return r.receive(ctx, i+1) })
		r.w.Go(fmt.Sprint("anybody ", i+1), func(ctx context.Context) error { // a message that never comes
			short, cancel := r.w.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if _, err := r.eps[i+1].ClaimTag(short, efa.AnyTag, efa.Wait); !errors.Is(err, efa.ErrCanceled) {
				return fmt.Errorf("what waits for anybody ended with %w", err)
			}
			return nil
		})
	}
	if err := r.w.Run(); err != nil {
		return err
	}
	if r.heard != len(r.eps)-1 {
		return fmt.Errorf("%d of %d have heard of it", r.heard, len(r.eps)-1)
	}
	var errs []error
	for _, ep := range r.eps {
		errs = append(errs, ep.Close())
	}
	return errors.Join(errs...)
}

// TestCloseTold plays seeds of told.
func TestCloseTold(t *testing.T) {
	for seed := range uint64(less(300)) {
		r, err := newTold(seed, seed%3 == 0)
		require.NoError(t, err)
		require.NoError(t, r.run(), "seed %d", seed)
	}
}

// checkEnd checks an event of the end of a peer: no orderly end is reported but that of an
// endpoint that has been closed, on a fabric that tells.
func (n *node) checkEnd(e efa.Event) {
	r := n.run
	if e.Kind != efa.PeerClosed {
		return
	}
	raw, ok := e.Address.Raw("sim")
	if !ok {
		raw, _ = e.Address.Raw("near")
	}
	if i := r.whois(raw); i < 0 || !r.cast[i].closed || r.cast[i].diedAt > 0 && r.p.kill || !r.p.fabric.ReportGone {
		r.fail("%d was told that %d (%v) has closed", n.id, i, raw)
	}
	r.stats["close told"]++
}
