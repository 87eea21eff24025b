package efatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestHandleOfAnotherMeanwhile: a call that waits for a place while its handle is removed and
// becomes another peer's ends with ErrCanceled, and never reaches that one.
func TestHandleOfAnotherMeanwhile(t *testing.T) {
	for _, how := range []struct {
		name string
		call func(context.Context, *efa.Endpoint, efa.Addr) error
	}{
		{"Send", func(ctx context.Context, e *efa.Endpoint, to efa.Addr) error {
			return e.Send(ctx, to, []byte("for bob"))
		}},
		{"Inject", func(ctx context.Context, e *efa.Endpoint, to efa.Addr) error {
			return e.Send(ctx, to, []byte("for bob"), efa.Inject)
		}},
		{"Recv", func(ctx context.Context, e *efa.Endpoint, to efa.Addr) error {
			_, err := e.Recv(ctx, make([]byte, 8), efa.From(to))
			return err
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			w := newWorld(t, efatest.Config{Seed: 1})
			alice := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{TxDepth: 1, RxDepth: 1})
			bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
			carol := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
			dave := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
			toBob, toDave := alice.knows(bob), alice.knows(dave)
			w.Go("the places", func(ctx context.Context) error {
				_, err := alice.ep.Start(&efa.RecvReq{Buf: make([]byte, 8), Tagged: true, Tag: 1 << 40})
				if err != nil {
					return err
				}
				return alice.ep.Send(ctx, toDave, make([]byte, 300_000))
			})
			w.Go("call", func(ctx context.Context) error {
				if err := w.Sleep(time.Millisecond); err != nil {
					return err
				}
				err := how.call(ctx, alice.ep, toBob)
				if how.name == "Inject" { // nobody waits for its outcome
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, efa.ErrCanceled)
				}
				return nil
			})
			w.Go("removal", func(ctx context.Context) error {
				if err := w.Sleep(2 * time.Millisecond); err != nil {
					return err
				}
				if err := alice.av.Remove(ctx, toBob); err != nil {
					return err
				}
				require.Equal(t, toBob, alice.knows(carol), "the lowest free handle")
				back, err := carol.av.Insert(alice.ep.Address())
				require.NoError(t, err)
				// It takes alice's receives: that with a tag, so that there is a place, then
				// perhaps that which was for bob.
				if err := carol.ep.SendTag(ctx, back, 1<<40, nil, efa.Inject); err != nil {
					return err
				}
				if err := carol.ep.Send(ctx, back, nil, efa.Inject); err != nil {
					return err
				}
				_, err = dave.ep.Recv(ctx, make([]byte, 300_000))
				return err
			})
			w.Go("carol", func(ctx context.Context) error {
				ctx, cancel := w.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := carol.ep.Recv(ctx, make([]byte, 8))
				require.ErrorIs(t, err, context.DeadlineExceeded, "a message for bob")
				return nil
			})
			require.NoError(t, w.Run())
		})
	}
}

// TestHandleRefused: what a newcomer sends while the receiver's device has no address handle to give is
// received when it has one again. The sender heard that it had arrived.
func TestHandleRefused(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1})
	alice := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
	bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
	raw, ok := bob.ep.Address().Raw("sim")
	require.True(t, ok)
	rule, err := w.Fabric().AddRule(sim.Rule{Fault: sim.FaultRefuseAH, From: sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}, Times: 5})
	require.NoError(t, err)
	const messages = 3
	w.Go("alice", func(ctx context.Context) error {
		to := alice.knows(bob)
		for i := range messages {
			if err := alice.ep.Send(ctx, to, fill(100, byte(i))); err != nil {
				return err
			}
		}
		return nil
	})
	w.Go("bob", func(ctx context.Context) error {
		for i := range messages {
			buf := make([]byte, 100)
			if _, err := bob.ep.Recv(ctx, buf); err != nil {
				return err
			}
			require.Equal(t, fill(100, byte(i)), buf)
		}
		return nil
	})
	require.NoError(t, w.Run())
	require.Equal(t, 5, w.Fabric().Hits(rule))
}
