package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/model"
)

// poolRun is a seed in which several endpoints have one pool of receives. What it draws is
// drawn as it goes on.
type poolRun struct {
	d       draw
	w       *efatest.World
	flavor  flavor
	pool    *efa.RecvPool
	eps     []*efa.Endpoint
	queues  []*efa.Queue // the pool's, then those of endpoints; the last may be missing
	senders []*efa.Endpoint
	to      [][]efa.Addr // the pool's endpoints, by sender

	msgs    []*model.Msg
	takes   []*poolTake // by token, less 1
	at      map[*model.Recv]int
	sending int
	stamp   int
	depth   int // of the pool
	closed  int // the endpoint that was closed in the middle, or -1
	errs    []error
}

// poolTake is a receive of the pool.
type poolTake struct {
	model.Recv
	id    efa.OpID
	buf   []byte
	rest  bool
	ended bool
}

func (r *poolRun) fail(format string, args ...any) {
	if len(r.errs) < 5 {
		r.errs = append(r.errs, fmt.Errorf(format, args...))
	}
}

func (r *poolRun) tick() int {
	r.stamp++
	return r.stamp
}

// playPool plays a seed and judges it.
func playPool(seed uint64, log io.Writer) error {
	d := draw{rand.New(rand.NewPCG(seed, 0x9001))}
	p := &plan{seed: seed}
	p.drawFabric(d)
	r := &poolRun{d: d, flavor: pick(d, calm, fickle, casualty), at: make(map[*model.Recv]int), closed: -1}
	var err error
	if r.w, err = efatest.New(efatest.Config{Seed: seed, Fabric: p.fabric, MaxTime: maxTime, Log: log}); err != nil {
		return err
	}
	for _, rule := range p.rules {
		if _, err := r.w.Fabric().AddRule(rule); err != nil {
			return err
		}
	}
	r.w.Logf("%v", r.flavor)
	closeAll, err := r.open()
	if err != nil {
		return err
	}
	r.sending = len(r.senders)
	for i := range r.senders {
		r.w.Go(fmt.Sprint("sender ", i), func(ctx context.Context) error { return r.send(ctx, i) })
	}
	r.w.Go("receiver", func(context.Context) error { return errors.Join(r.receive(), closeAll()) })
	if err := r.w.Run(); err != nil {
		return errors.Join(append(r.errs, err)...)
	}
	var recvs []*model.Recv
	for _, x := range r.takes {
		if !x.ended {
			r.fail("%v has no outcome", &x.Recv)
		}
		recvs = append(recvs, &x.Recv)
	}
	r.errs = append(r.errs, model.CheckShared(r.msgs, recvs, r.at))
	return errors.Join(r.errs...)
}

func (r *poolRun) open() (closeAll func() error, err error) {
	cfg := func(c efa.EndpointConfig) efa.EndpointConfig {
		c.Protocol = efa.ProtocolConfig{
			SendQueue: r.d.log(4, 64), RecvQueue: r.d.log(4, 64), MaxMedium: pick(r.d, 0, -1, r.d.log(512, 1<<16)),
			RNRRetry: pick(r.d, -1, 0, 2, 7), RNRMax: time.Millisecond, ProbeAfter: probeAfter, PeerTimeout: peerTimeout,
		}
		return c
	}
	domain := func() (*efa.Domain, error) {
		dev, err := r.w.Device(sim.DeviceConfig{})
		if err != nil {
			return nil, err
		}
		fab, err := efa.Open(efa.Config{Device: dev})
		if err != nil {
			return nil, err
		}
		return fab.OpenDomain(efa.DomainConfig{Shards: 1 + r.d.IntN(2)})
	}
	enable := func(dom *efa.Domain, c efa.EndpointConfig) (*efa.Endpoint, error) {
		ep, err := dom.NewEndpoint(cfg(c))
		if err != nil {
			return nil, err
		}
		err = ep.Enable(context.Background())
		for errors.Is(err, device.ErrNoMemory) {
			err = ep.Enable(context.Background())
		}
		return ep, err
	}
	dom, err := domain()
	if err != nil {
		return nil, err
	}
	queue := func() (*efa.Queue, error) {
		q, err := dom.NewQueue(r.d.log(1, 32))
		r.queues = append(r.queues, q)
		return q, err
	}
	q, err := dom.NewQueue(64)
	if err != nil {
		return nil, err
	}
	r.queues = []*efa.Queue{q}
	r.depth = 4 + r.d.IntN(30)
	if r.pool, err = dom.NewRecvPool(efa.RecvPoolConfig{Queue: q, Depth: r.depth}); err != nil {
		return nil, err
	}
	for range 1 + r.d.IntN(5) {
		c := efa.EndpointConfig{RecvPool: r.pool}
		if c.RecvQueue, err = queue(); err != nil {
			return nil, err
		}
		ep, err := enable(dom, c)
		if err != nil {
			return nil, err
		}
		r.eps = append(r.eps, ep)
	}
	for range 1 + r.d.IntN(3) {
		from, err := domain()
		if err != nil {
			return nil, err
		}
		ep, err := enable(from, efa.EndpointConfig{})
		if err != nil {
			return nil, err
		}
		r.senders = append(r.senders, ep)
		var to []efa.Addr
		for _, e := range r.eps {
			h, err := ep.AddressVector().Insert(e.Address())
			if err != nil {
				return nil, err
			}
			to = append(to, h)
		}
		r.to = append(r.to, to)
		if r.d.chance(.5) {
			if _, err := r.eps[0].AddressVector().Insert(ep.Address()); err != nil {
				return nil, err
			}
		}
	}
	return func() error {
		var errs []error
		for _, e := range r.eps {
			errs = append(errs, e.Close())
		}
		return errors.Join(append(errs, r.pool.Close(), r.drained())...)
	}, nil
}

// drained reports what is left in the queues: every receive has had its outcome.
func (r *poolRun) drained() error {
	var cs [1]efa.Completion
	for _, q := range r.queues {
		if q.TryRead(cs[:]) > 0 {
			return fmt.Errorf("one outcome too many: %+v", cs[0])
		}
	}
	return nil
}

// send is the program of a sender: its messages go to endpoints at random, to one of them
// more often.
func (r *poolRun) send(ctx context.Context, i int) error {
	defer func() { r.sending-- }()
	favorite := r.d.IntN(len(r.eps))
	for range 1 + r.d.IntN(30) {
		to := favorite
		if r.d.chance(.5) {
			to = r.d.IntN(len(r.eps))
		}
		m := &model.Msg{ID: len(r.msgs), From: i, To: to, Len: r.d.log(8, 30_000), Tagged: r.d.chance(.4)}
		if m.Tagged {
			m.Tag = uint64(r.d.IntN(3))
		}
		r.msgs = append(r.msgs, m)
		buf := make([]byte, m.Len)
		model.Fill(buf, m.ID)
		m.Order, m.Sure = r.tick(), true
		var err error
		if m.Tagged {
			err = r.senders[i].SendTag(ctx, r.to[i][to], m.Tag, buf)
		} else {
			err = r.senders[i].Send(ctx, r.to[i][to], buf)
		}
		switch {
		case r.closed == to:
			m.Sure = false
		case err != nil:
			return fmt.Errorf("%v: %w", m, err)
		}
		if r.d.chance(.3) {
			if err := r.w.Sleep(r.d.upTo(100 * time.Microsecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive is the program of the pool: it keeps a receive for everything of either kind, and
// some at random, until nothing comes any more.
func (r *poolRun) receive() error {
	if err := r.w.Sleep(r.d.upTo(time.Millisecond)); err != nil {
		return err
	}
	strike, most := 1+r.d.IntN(30), 2+r.d.IntN(r.depth-3) // there is a place for what takes everything
	for quiet := time.Duration(0); quiet < 3*patience; {
		r.post(most)
		if r.read() > 0 {
			quiet = 0
		} else if r.sending == 0 {
			quiet += time.Millisecond
		}
		pause := lap
		if quiet > 0 {
			pause = time.Millisecond
		}
		if r.flavor == fickle && r.d.chance(.1) {
			x := r.takes[r.d.IntN(len(r.takes))]
			if err := r.cancel(x); err != nil {
				return err
			}
		}
		if strike--; strike == 0 && r.flavor == casualty {
			if err := r.closeOne(); err != nil {
				return err
			}
		}
		if err := r.w.Sleep(pause); err != nil {
			return err
		}
	}
	for _, x := range r.takes {
		if err := r.cancel(x); err != nil {
			return err
		}
	}
	for range 30 {
		r.read()
		if err := r.w.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (r *poolRun) cancel(x *poolTake) error {
	if x.ended || x.Canceled != 0 {
		return nil
	}
	x.Canceled = r.tick()
	return r.pool.Cancel(x.id)
}

// closeOne closes an endpoint; what it was sent may be lost.
func (r *poolRun) closeOne() error {
	r.closed = r.d.IntN(len(r.eps))
	for _, m := range r.msgs {
		m.Sure = m.Sure && m.To != r.closed
	}
	return r.eps[r.closed].Close()
}

// post posts receives until there are enough.
func (r *poolRun) post(most int) {
	rest, n := map[bool]bool{}, 0
	for _, x := range r.takes {
		if !x.ended && x.Canceled == 0 {
			n++
			rest[x.Tagged] = rest[x.Tagged] || x.rest
		}
	}
	for {
		x := &poolTake{}
		x.Source = model.Any
		switch {
		case !rest[true]:
			x.Tagged, x.Ignore, x.rest = true, ^uint64(0), true
		case !rest[false]:
			x.rest = true
		case n >= most:
			return
		default:
			x.Tagged, x.Tag, x.Ignore = r.d.chance(.5), uint64(r.d.IntN(3)), pick(r.d, 0, 0, 1, ^uint64(0))
		}
		if !x.Tagged {
			x.Tag, x.Ignore = 0, 0
		}
		x.buf = make([]byte, 30_000)
		x.Post = r.tick()
		id, err := r.pool.Post(&efa.RecvReq{Buf: x.buf, Tagged: x.Tagged, Tag: x.Tag, Ignore: x.Ignore, Token: uint64(len(r.takes) + 1)})
		if err != nil {
			if !errors.Is(err, efa.ErrAgain) {
				r.fail("post: %w", err)
			}
			return
		}
		x.id = id
		r.takes = append(r.takes, x)
		rest[x.Tagged] = rest[x.Tagged] || x.rest
		n++
	}
}

// read takes what the queues have; one is left alone now and then.
func (r *poolRun) read() (n int) {
	var cs [4]efa.Completion
	for i, q := range r.queues {
		if r.d.chance(.3) {
			continue
		}
		k := q.TryRead(cs[:])
		for j := range cs[:k] {
			r.ended(&cs[j], i-1)
		}
		n += k
	}
	return n
}

// ended takes an outcome that came at an endpoint, or at the pool.
func (r *poolRun) ended(c *efa.Completion, at int) {
	x := r.takes[c.Token-1]
	if x.ended || c.ID != x.id {
		r.fail("%v ended twice, or as %d: %v", &x.Recv, c.ID, c.Err)
		return
	}
	x.ended, x.Ended = true, r.tick()
	switch {
	case errors.Is(c.Err, efa.ErrCanceled) && x.Canceled != 0:
	case errors.Is(c.Err, efa.ErrClosed) && at == r.closed && at >= 0:
		x.Canceled = x.Post
	case c.Err != nil || at < 0:
		r.fail("%v ended at %d: %v", &x.Recv, at, c.Err)
	default:
		g := &model.Got{ID: model.ID(x.buf), From: r.whois(c.Raw()), Tagged: c.Tagged, Tag: c.Tag, Len: c.N}
		if off := model.Differs(x.buf[:c.N], g.ID, c.N); off >= 0 {
			r.fail("%v: byte %d of message %d is wrong", &x.Recv, off, g.ID)
		}
		x.Got, r.at[&x.Recv] = g, at
	}
}

// whois is the sender at an address.
func (r *poolRun) whois(raw efa.RawAddr) int {
	for i, e := range r.senders {
		if a, ok := e.Address().Raw("sim"); ok && a == raw {
			return i
		}
	}
	return -1
}

// TestPoolSeeds plays seeds of endpoints that share a pool of receives: what was sent to
// them, in whatever order it comes, goes to receives by the rules, each of which ends once.
func TestPoolSeeds(t *testing.T) {
	count := *flagSeeds
	if count == 0 {
		count = less(playSeeds)
	}
	for seed := *flagFirst; seed < *flagFirst+uint64(count); seed++ {
		var log bytes.Buffer
		err := playPool(seed, &log)
		if err != nil {
			t.Logf("the end of the log:\n%s", tail(log.Bytes(), 60))
		}
		require.NoError(t, err, "seed %#x", seed)
	}
}
