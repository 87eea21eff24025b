package efatest_test

import (
	"context"
	"errors"
	"fmt"
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
