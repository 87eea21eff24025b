package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

func newWorld(t *testing.T, cfg efatest.Config) *efatest.World {
	w, err := efatest.New(cfg)
	require.NoError(t, err)
	return w
}

// endpoint opens one on a device of its own.
func endpoint(t *testing.T, w *efatest.World, cfg efa.EndpointConfig) *efa.Endpoint {
	dev, err := w.Device(sim.DeviceConfig{})
	require.NoError(t, err)
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	cfg.AV = dom.NewAddressVector()
	ep, err := dom.NewEndpoint(cfg)
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	return ep
}

func pair(t *testing.T, w *efatest.World) (a, b *efa.Endpoint, toB efa.Addr) {
	var avs [2]*efa.AddressVector
	var eps [2]*efa.Endpoint
	for i := range eps {
		dev, err := w.Device(sim.DeviceConfig{})
		require.NoError(t, err)
		fab, err := efa.Open(efa.Config{Device: dev})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		avs[i] = dom.NewAddressVector()
		eps[i], err = dom.NewEndpoint(efa.EndpointConfig{AV: avs[i], TxDepth: 1})
		require.NoError(t, err)
		require.NoError(t, eps[i].Enable(context.Background()))
	}
	toB, err := avs[0].Insert(eps[1].Address())
	require.NoError(t, err)
	return eps[0], eps[1], toB
}

func TestSleep(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1})
	var order []string
	for _, x := range []struct {
		name  string
		sleep time.Duration
	}{{"late", 2 * time.Second}, {"early", time.Second}, {"soon", 0}} {
		w.Go(x.name, func(context.Context) error {
			if err := w.Sleep(x.sleep); err != nil {
				return err
			}
			require.GreaterOrEqual(t, w.Elapsed(), x.sleep)
			order = append(order, x.name)
			return w.Yield()
		})
	}
	require.NoError(t, w.Run())
	require.Equal(t, []string{"soon", "early", "late"}, order)
	require.Equal(t, 2*time.Second, w.Elapsed())
	require.Error(t, w.Sleep(1), "outside a program")
	require.Error(t, w.Yield(), "outside a program")
}

func TestStuck(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1})
	ep := endpoint(t, w, efa.EndpointConfig{})
	unwound := false
	w.Go("fine", func(context.Context) error { return nil })
	w.Go("lonely", func(ctx context.Context) error {
		defer func() { unwound = true }()
		_, err := ep.Recv(ctx, nil)
		return err
	})
	err := w.Run()
	require.ErrorIs(t, err, efatest.ErrStuck)
	require.ErrorContains(t, err, ": lonely")
	require.ErrorContains(t, err, "lonely: ")
	require.NotContains(t, err.Error(), "fine")
	require.True(t, unwound)
}

func TestMaxTime(t *testing.T) {
	w := newWorld(t, efatest.Config{MaxTime: time.Second})
	w.Go("clock", func(context.Context) error {
		for {
			if err := w.Sleep(time.Millisecond); err != nil {
				return nil
			}
		}
	})
	require.ErrorIs(t, w.Run(), efatest.ErrMaxTime)
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 3})
	ep := endpoint(t, w, efa.EndpointConfig{})
	w.Go("patient", func(ctx context.Context) error {
		ctx, cancel := w.WithTimeout(ctx, 7*time.Millisecond)
		defer cancel()
		_, err := ep.Recv(ctx, make([]byte, 8))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, efa.ErrCanceled)
		require.Equal(t, 7*time.Millisecond, w.Elapsed())
		_, early := w.WithTimeout(ctx, time.Hour)
		early()
		return nil
	})
	require.NoError(t, w.Run())
	require.Less(t, w.Elapsed(), time.Hour)
}

func TestPanic(t *testing.T) {
	w := newWorld(t, efatest.Config{})
	w.Go("clumsy", func(context.Context) error { panic("oops") })
	w.Go("failing", func(context.Context) error { return errors.New("no") })
	err := w.Run()
	require.ErrorContains(t, err, "clumsy: panic: oops")
	require.ErrorContains(t, err, "world_test.go", "the stack")
	require.ErrorContains(t, err, "failing: no")
}

// TestGo: a program may start others, and its context ends with it.
func TestGo(t *testing.T) {
	w := newWorld(t, efatest.Config{})
	var inner context.Context
	done := false
	w.Go("outer", func(ctx context.Context) error {
		inner = ctx
		w.Go("inner", func(context.Context) error {
			done = true
			return nil
		})
		return nil
	})
	require.NoError(t, w.Run())
	require.True(t, done)
	require.Error(t, inner.Err())
}

// TestOutside: a call from outside the programs runs the world while it waits.
func TestOutside(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 5})
	a, b, toB := pair(t, w)
	ctx := context.Background()
	w.Go("receiver", func(ctx context.Context) error {
		_, err := b.Recv(ctx, make([]byte, 100000))
		return err
	})
	require.NoError(t, a.Send(ctx, toB, make([]byte, 100000)))
	require.NoError(t, w.Run())
	stats, err := a.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(1), stats["PacketsSent.LONGCTS_MSGRTM"])
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	_, err = a.Stats(ctx)
	require.ErrorIs(t, err, efa.ErrClosed)
}

// TestCloseWithLine: Close ends calls that wait for a place among the operations
// in progress, too.
func TestCloseWithLine(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t, efatest.Config{Seed: seed})
		a, b, toB := pair(t, w)
		ended := 0
		for range 5 {
			w.Go("sender", func(ctx context.Context) error {
				err := a.Send(ctx, toB, make([]byte, 200000)) // there is no receive for it
				require.ErrorIs(t, err, efa.ErrClosed)
				ended++
				return nil
			})
		}
		w.Go("closer", func(context.Context) error {
			if err := w.Sleep(time.Millisecond); err != nil {
				return err
			}
			return a.Close()
		})
		require.NoError(t, w.Run(), "seed %d", seed)
		require.Equal(t, 5, ended)
		require.NoError(t, b.Close())
	}
}

// TestLog: the seed decides everything.
func TestLog(t *testing.T) {
	log := func(seed uint64) string {
		var buf bytes.Buffer
		hooked := 0
		w := newWorld(t, efatest.Config{Seed: seed, Log: &buf, Fabric: sim.Config{Hook: func(sim.Event) { hooked++ }}})
		a, b, toB := pair(t, w)
		w.Go("a", func(ctx context.Context) error {
			w.Logf("sending")
			return a.Send(ctx, toB, make([]byte, 50000))
		})
		w.Go("b", func(ctx context.Context) error {
			_, err := b.Recv(ctx, make([]byte, 50000))
			return err
		})
		require.NoError(t, w.Run())
		require.Positive(t, hooked)
		return buf.String()
	}
	first := log(1)
	require.Contains(t, first, "0 a: sending\n")
	require.Contains(t, first, " arrive #")
	require.Equal(t, first, log(1))
	require.NotEqual(t, first, log(2))
}
