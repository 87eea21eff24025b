package efatest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/wire"
)

// end ends an endpoint and its process in order, or as if its host had lost power.
func (s *seat) end(kill bool) {
	if kill {
		s.dev.(*efatest.Device).Kill()
		return
	}
	require.NoError(s.t, s.ep.Close())
}

// again opens an endpoint with the GID and number that another had.
func again(t *testing.T, w *efatest.World, at sim.Endpoint) *seat {
	t.Helper()
	return seatOn(t, deviceOf(t, w, sim.DeviceConfig{GID: at.GID}), efa.EndpointConfig{QPN: at.QPN})
}

// TestRestartedPeerIsReached: ofiwg/libfabric#5894. A peer that was started again at the same
// address was never reached any more, since what was known of the former one was kept.
func TestRestartedPeerIsReached(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("killed=%v", kill), func(t *testing.T) {
				w := newWorld(t, efatest.Config{Seed: seed, Fabric: efatest.FabricConfig{ReportGone: kill}})
				alice := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
				bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
				at := bob.place()
				talk := func(life int) {
					toBob, toAlice := alice.knows(bob), bob.knows(alice)
					exchange := func(s *seat, to efa.Addr) {
						w.Go(fmt.Sprintf("life %d at %v", life, to), func(ctx context.Context) error {
							for i := range 3 {
								for _, n := range []int{8, 100_000} {
									op, err := s.ep.Start(&efa.SendReq{To: to, Buf: fill(n, byte(life+i)), Level: efa.Delivered})
									if err != nil {
										return err
									}
									buf := make([]byte, n)
									m, err := s.ep.Recv(ctx, buf, efa.From(to))
									if err != nil {
										return err
									}
									require.Equal(t, fill(n, byte(life+i)), buf[:m.N])
									if _, err := op.Wait(ctx); err != nil {
										return err
									}
								}
							}
							return nil
						})
					}
					exchange(alice, toBob)
					exchange(bob, toAlice)
					require.NoError(t, w.Run())
				}
				for life := range 4 {
					talk(life)
					former := alice.knows(bob)
					bob.end(kill)
					w.Go("to the former one", func(ctx context.Context) error {
						_ = alice.ep.Send(ctx, former, fill(8, 9)) // it ends, one way or the other
						return w.Sleep(time.Second)
					})
					require.NoError(t, w.Run())
					bob = again(t, w, at)
				}
				talk(4)
			})
		}
	})
}

// TestStalePacketsOfAFormerEndpoint: ofiwg/libfabric#6793. A queue pair's number is used again,
// and packets of its former owner that arrive late were taken for the successor's.
func TestStalePacketsOfAFormerEndpoint(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		const messages = 20
		var posted, successor uint64 // numbers of requests
		stale := 0
		w := newWorld(t, efatest.Config{Seed: seed, Fabric: efatest.FabricConfig{Hook: func(e efatest.Event) {
			switch e.Kind {
			case sim.EventPost:
				posted = e.Seq
			case sim.EventArrive:
				if t, ok := e.Type(); ok && successor > 0 && e.Seq <= successor && t == byte(wire.TypeEagerMsgRTM) {
					stale++
				}
			}
		}}})
		alice := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
		bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
		at := bob.place()
		send := func(s *seat, who byte, opts ...efa.OpOption) {
			to := s.knows(alice)
			w.Go(fmt.Sprintf("sender %d", who), func(ctx context.Context) error {
				for i := range messages {
					if err := s.ep.Send(ctx, to, []byte{who, byte(i)}, opts...); err != nil {
						return err
					}
				}
				return nil
			})
		}
		receive := func(from efa.Addr, who byte) {
			w.Go(fmt.Sprintf("receiver of %d", who), func(ctx context.Context) error {
				buf := make([]byte, 2)
				for i := range messages {
					if _, err := alice.ep.Recv(ctx, buf, efa.From(from)); err != nil {
						return err
					}
					require.Equal(t, []byte{who, byte(i)}, buf)
				}
				return nil
			})
		}
		send(bob, 1)
		receive(alice.knows(bob), 1)
		require.NoError(t, w.Run())

		late := strike(t, w, efatest.Rule{Fault: efatest.FaultDelay, Delay: 10 * time.Millisecond, From: at}, wire.TypeEagerMsgRTM)
		send(bob, 1, efa.Inject) // it does not wait for them
		w.Go("a moment", func(context.Context) error { return w.Sleep(time.Microsecond) })
		require.NoError(t, w.Run())
		bob.end(true)
		w.Fabric().RemoveRule(late)

		bob = again(t, w, at)
		successor = posted
		send(bob, 2)
		receive(alice.knows(bob), 2)
		require.NoError(t, w.Run())
		w.Go("the rest", func(context.Context) error { return w.Sleep(time.Second) })
		require.NoError(t, w.Run())
		require.Positive(t, stale, "no packet of the former endpoint came late")
		send(bob, 3)
		receive(alice.knows(bob), 3)
		require.NoError(t, w.Run())
		require.Positive(t, alice.counter("StaleConnID"))
	})
}
