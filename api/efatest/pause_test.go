package efatest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestPauseBeyondPeerTimeout: a process is stopped for longer than PeerTimeout, so that its
// peer fails it, and goes on. All that it sends then is received, in order; what the peer
// sends fails until the peer has made up for what got lost, and is received from then on.
func TestPauseBeyondPeerTimeout(t *testing.T) {
	for seed := range uint64(20) {
		for _, queued := range []bool{false, true} {
			require.NoError(t, pauseBeyond(seed, queued), "seed %d, queued %v", seed, queued)
		}
	}
}

func pauseBeyond(seed uint64, queued bool) error {
	w, err := efatest.New(efatest.Config{Seed: seed, Fabric: efatest.FabricConfig{
		Delay: 5 * time.Microsecond, Jitter: 50 * time.Microsecond,
	}})
	if err != nil {
		return err
	}
	if queued {
		w.QueueAll()
	}
	var devs [2]*efatest.Device
	var eps [2]*efa.Endpoint
	var other [2]efa.Addr
	ctx := context.Background()
	for i := range eps {
		if devs[i], err = w.Device(sim.DeviceConfig{}); err != nil {
			return err
		}
		if eps[i], err = efa.OpenEndpoint(ctx, efa.Setup{
			Fabric:   efa.Config{Device: devs[i]},
			Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 3 * time.Second, RecvQueue: 16}},
		}); err != nil {
			return err
		}
	}
	for i := range eps {
		if other[i], err = eps[i].AddressVector().Insert(eps[1-i].Address()); err != nil {
			return err
		}
	}
	const stopped, each = 10 * time.Second, 100
	sent := 0 // by the one that goes on
	w.Go("a", func(ctx context.Context) error {
		ep, buf := eps[0], make([]byte, 100_000)
		if _, err := ep.Recv(ctx, buf); err != nil {
			return err
		}
		devs[1].Pause(stopped)
		for ; err == nil; sent++ {
			err = ep.Send(ctx, other[0], fmt.Append(nil, "a", sent))
		}
		if !errors.Is(err, efa.ErrPeerFailed) {
			return fmt.Errorf("send to the stopped one: %w", err)
		}
		if _, err := ep.Recv(ctx, buf, efa.From(other[0])); !errors.Is(err, efa.ErrPeerFailed) {
			return fmt.Errorf("receive from the stopped one: %w", err)
		}
		for i := range each {
			m, err := ep.Recv(ctx, buf)
			if err != nil {
				return err
			}
			if n := i * 300; m.N != n || n > 0 && int(buf[0])+int(buf[n-1]) != 2*(i%100) {
				return fmt.Errorf("%d bytes came instead of message %d", m.N, i)
			}
		}
		for try := 0; ; try++ {
			err := ep.Send(ctx, other[0], []byte("open"))
			if err == nil || !errors.Is(err, efa.ErrPeerFailed) || try == 1000 {
				return err
			}
			if err := w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
	})
	w.Go("b", func(ctx context.Context) error {
		ep, buf := eps[1], make([]byte, 100)
		if err := ep.Send(ctx, other[1], []byte("here")); err != nil {
			return err
		}
		if err := w.Sleep(stopped + time.Second); err != nil {
			return err
		}
		for i := range each {
			b := make([]byte, i*300)
			for k := range b {
				b[k] = byte(i % 100)
			}
			how := efa.Complete(efa.Transmitted)
			if i%10 == 9 {
				how = efa.Complete(efa.Delivered)
			}
			if err := ep.Send(ctx, other[1], b, how); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		for i := 0; ; i++ {
			m, err := ep.Recv(ctx, buf)
			switch got := string(buf[:m.N]); {
			case err != nil:
				return err
			case got == "open":
				return nil
			case got != fmt.Sprint("a", i) || i >= sent:
				return fmt.Errorf("%q came, where %d of theirs were sent", got, sent)
			}
		}
	})
	if err := w.Run(); err != nil {
		return err
	}
	return errors.Join(eps[0].Close(), eps[1].Close())
}

// TestBothFailEachOther: two endpoints that cannot reach each other for a while both fail
// the other one. When they can again, the first send that is tried brings them together.
func TestBothFailEachOther(t *testing.T) {
	w, err := efatest.New(efatest.Config{Seed: 1})
	require.NoError(t, err)
	var eps [2]*efa.Endpoint
	var other [2]efa.Addr
	for i := range eps {
		dev, err := w.Device(sim.DeviceConfig{})
		require.NoError(t, err)
		eps[i], err = efa.OpenEndpoint(t.Context(), efa.Setup{Fabric: efa.Config{Device: dev}})
		require.NoError(t, err)
	}
	for i := range eps {
		other[i], err = eps[i].AddressVector().Insert(eps[1-i].Address())
		require.NoError(t, err)
	}
	for i, ep := range eps {
		w.Go(fmt.Sprint(i), func(ctx context.Context) error {
			buf := make([]byte, 10)
			if err := errors.Join(ep.Send(ctx, other[i], []byte("before")), received(ctx, ep, buf, "before")); err != nil {
				return err
			}
			if i == 0 {
				cut, err := w.Fabric().AddRule(sim.Rule{Fault: sim.FaultStatus, Status: device.StatusUnreachable})
				if err != nil {
					return err
				}
				w.Go("mend", func(context.Context) error {
					err := w.Sleep(30 * time.Second)
					w.Fabric().RemoveRule(cut)
					return err
				})
			}
			if err := w.Sleep(time.Second); err != nil {
				return err
			}
			for try := 0; try < 100; try++ {
				if err = ep.Send(ctx, other[i], fmt.Append(nil, try)); err == nil {
					return received(ctx, ep, buf, "")
				}
				if !errors.Is(err, efa.ErrPeerFailed) {
					break
				}
				if err := w.Sleep(time.Second); err != nil {
					return err
				}
			}
			return err
		})
	}
	require.NoError(t, w.Run())
	require.Less(t, w.Elapsed(), time.Minute)
	require.NoError(t, errors.Join(eps[0].Close(), eps[1].Close()))
}

// received receives a message, of which the text may be given.
func received(ctx context.Context, ep *efa.Endpoint, buf []byte, text string) error {
	m, err := ep.Recv(ctx, buf)
	if err == nil && text != "" && string(buf[:m.N]) != text {
		return fmt.Errorf("%q came, not %q", buf[:m.N], text)
	}
	return err
}

const pauseSeeds = 20

// TestPauses: two endpoints send to each other, with a PeerTimeout of 1 s, and are stopped
// again and again for up to 8 s. No message comes twice, out of order or damaged, and each
// whose send was successful comes, unless the receive that took it ended with an error; one
// that was Delivered comes in any case.
func TestPauses(t *testing.T) {
	count := less(pauseSeeds)
	if *flagSeeds > 0 {
		count = *flagSeeds
	}
	var all pauseTally
	for seed := *flagFirst; seed < *flagFirst+uint64(count); seed++ {
		p := &pauses{rng: rand.New(rand.NewPCG(seed, 0xa5e))}
		require.NoError(t, p.play(seed), "seed %d", seed)
		all.sent += p.sent
		all.failed += p.failed
		all.returned += p.returned
	}
	t.Logf("%d seeds: %+v", count, all)
	require.Positive(t, min(all.sent, all.failed, all.returned))
}

// pauseTally counts messages sent, sends that failed and peers that came back.
type pauseTally struct{ sent, failed, returned int }

type pauses struct {
	pauseTally
	rng   *rand.Rand
	w     *efatest.World
	devs  [2]*efatest.Device
	sides [2]*pauseSide
}

// pauseSide is an endpoint, and what became of what it sent.
type pauseSide struct {
	ep    *efa.Endpoint
	other efa.Addr
	sends []error
	level []efa.Level
	sizes []int
	got   map[int]bool
	lost  int // receives that ended with an error
	last  int
}

const pauseEnd = 1 << 30 // the index of the last message

func (p *pauses) play(seed uint64) error {
	var err error
	p.w, err = efatest.New(efatest.Config{Seed: seed, MaxTime: time.Hour, Fabric: efatest.FabricConfig{
		Delay: 5 * time.Microsecond, Jitter: 50 * time.Microsecond,
	}})
	if err != nil {
		return err
	}
	if seed%2 == 1 {
		p.w.QueueAll()
	}
	reads := p.rng.IntN(2) == 0
	for i := range p.sides {
		if p.devs[i], err = p.w.Device(sim.DeviceConfig{RDMARead: reads}); err != nil {
			return err
		}
		s := &pauseSide{got: make(map[int]bool), last: -1}
		protocol := efa.ProtocolConfig{
			PeerTimeout: time.Second, ProbeAfter: 100 * time.Millisecond, RecvQueue: 4 << p.rng.IntN(4),
			SendQueue: 4 << p.rng.IntN(6), MaxMedium: []int{0, -1}[p.rng.IntN(2)],
		}
		if s.ep, err = efa.OpenEndpoint(context.Background(), efa.Setup{
			Fabric: efa.Config{Device: p.devs[i]}, Endpoint: efa.EndpointConfig{Protocol: protocol},
		}); err != nil {
			return err
		}
		p.sides[i] = s
	}
	stopped := false
	for i, s := range p.sides {
		if s.other, err = s.ep.AddressVector().Insert(p.sides[1-i].ep.Address()); err != nil {
			return err
		}
		p.w.Go(fmt.Sprint("send", i), func(ctx context.Context) error { return p.send(ctx, s, &stopped) })
		p.w.Go(fmt.Sprint("recv", i), func(ctx context.Context) error { return p.recv(ctx, s) })
	}
	p.w.Go("stop", func(context.Context) error {
		for range 1 + p.rng.IntN(4) {
			if err := p.w.Sleep(time.Duration(p.rng.IntN(4e6)) * time.Microsecond); err != nil {
				return err
			}
			p.devs[p.rng.IntN(2)].Pause(time.Duration(p.rng.IntN(8e6)) * time.Microsecond)
		}
		err := p.w.Sleep(20 * time.Second)
		stopped = true
		return err
	})
	if err := p.w.Run(); err != nil {
		return err
	}
	for i, s := range p.sides {
		stats, err := s.ep.Stats(context.Background())
		if err != nil {
			return err
		}
		p.returned += int(stats["PeersReturned"])
		if err := p.judge(s, p.sides[1-i]); err != nil {
			return fmt.Errorf("from %d: %w", i, err)
		}
	}
	return errors.Join(p.sides[0].ep.Close(), p.sides[1].ep.Close())
}

// send sends until nobody is stopped any more, up to eight messages at a time.
func (p *pauses) send(ctx context.Context, s *pauseSide, stopped *bool) error {
	ops := make(map[int]*efa.Op)
	next := 0 // whose outcome comes next
	wait := func() error {
		_, err := ops[next].Wait(ctx)
		if err != nil && !errors.Is(err, efa.ErrPeerFailed) && !errors.Is(err, efa.ErrPeerAborted) {
			return fmt.Errorf("message %d: %w", next, err)
		}
		delete(ops, next)
		s.sends = append(s.sends, err)
		if next++; err != nil {
			p.failed++
		}
		return nil
	}
	most := 1 << p.rng.IntN(4)
	for i := 0; !*stopped; i++ {
		size := 4 + []int{p.rng.IntN(100), p.rng.IntN(9000), p.rng.IntN(60000), p.rng.IntN(300000)}[p.rng.IntN(4)]
		level := efa.Transmitted
		if p.rng.IntN(3) == 0 {
			level = efa.Delivered
		}
		op, err := s.ep.Start(&efa.SendReq{To: s.other, Buf: numbered(i, size), Level: level})
		if err != nil {
			return err
		}
		s.level, s.sizes = append(s.level, level), append(s.sizes, size)
		if ops[i] = op; len(ops) == most {
			if err := wait(); err != nil {
				return err
			}
		}
		p.sent++
		if err := p.w.Sleep(time.Duration(p.rng.IntN(50)) * time.Millisecond); err != nil {
			return err
		}
	}
	for len(ops) > 0 {
		if err := wait(); err != nil {
			return err
		}
	}
	for {
		err := s.ep.Send(ctx, s.other, numbered(pauseEnd, 4), efa.Complete(efa.Delivered))
		if err == nil || !errors.Is(err, efa.ErrPeerFailed) {
			return err
		}
		if err := p.w.Sleep(time.Second); err != nil {
			return err
		}
	}
}

func numbered(i, size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(i + k)
	}
	binary.LittleEndian.PutUint32(b, uint32(i))
	return b
}

func (p *pauses) recv(ctx context.Context, s *pauseSide) error {
	buf := make([]byte, 400_000)
	for {
		m, err := s.ep.Recv(ctx, buf)
		if errors.Is(err, efa.ErrPeerFailed) || errors.Is(err, efa.ErrPeerAborted) {
			s.lost++
			continue
		}
		if err != nil {
			return err
		}
		i := int(binary.LittleEndian.Uint32(buf))
		if want := numbered(i, m.N); string(want) != string(buf[:m.N]) {
			return fmt.Errorf("message %d of %d bytes is damaged", i, m.N)
		}
		if i <= s.last {
			return fmt.Errorf("message %d comes after %d", i, s.last)
		}
		if s.last, s.got[i] = i, true; i == pauseEnd {
			return nil
		}
	}
}

// judge compares what one side sent with what the other received.
func (p *pauses) judge(from, to *pauseSide) error {
	missing := 0
	for i, err := range from.sends {
		if err != nil || to.got[i] {
			continue
		}
		if missing++; from.level[i] == efa.Delivered {
			return fmt.Errorf("message %d of %d bytes was Delivered and did not come", i, from.sizes[i])
		}
	}
	if missing > to.lost {
		return fmt.Errorf("%d messages that were sent did not come, where %d receives failed", missing, to.lost)
	}
	return nil
}
