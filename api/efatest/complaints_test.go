package efatest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/wire"
)

// What users of EFA have complained about at libfabric, each as a scenario. docs/reliability.md
// lists them.

// TestReceiverThatNeverReadsItsQueue: ofiwg/libfabric#7313. Chapel polled the queue of its
// sending endpoint only, so the receiving one never progressed, and the sender waited for
// its HANDSHAKE for ever. Here the receiver's program makes no call at all.
func TestReceiverThatNeverReadsItsQueue(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, efatest.Config{Seed: seed})
		s := seats(t, w, 2, sim.DeviceConfig{}, efa.EndpointConfig{})
		alice, bob := s[0], s[1]
		m := bob.window(300_000)
		word, long := make([]byte, 8), make([]byte, 100_000)
		for _, b := range [][]byte{word, long} {
			_, err := bob.ep.PostRecv(&efa.RecvReq{Buf: b})
			require.NoError(t, err)
		}
		w.Go("alice", func(ctx context.Context) error {
			at := alice.ep.Memory(alice.to[1], m.Remote())
			back := make([]byte, 300_000)
			for _, call := range []func() error{
				func() error { return alice.ep.Send(ctx, alice.to[1], fill(8, 1), efa.Complete(efa.Delivered)) },
				func() error { return alice.ep.Send(ctx, alice.to[1], fill(100_000, 2), efa.Complete(efa.Delivered)) },
				func() error { return at.Write(ctx, fill(300_000, 3), efa.Complete(efa.Delivered)) },
				func() error { return at.Read(ctx, back) },
			} {
				if err := call(); err != nil {
					return err
				}
			}
			require.Equal(t, fill(300_000, 3), back)
			return nil
		})
		require.NoError(t, w.Run())
		require.Less(t, w.Elapsed(), time.Second)
		require.Equal(t, fill(8, 1), word)
		require.Equal(t, fill(100_000, 2), long)
	})
}

// TestRanksOnTwoProviders: ofiwg/libfabric#6565. Ranks of several hosts hung in the progress
// of the shm provider under that of the efa provider. Here three hosts have three ranks each,
// with a device for their host that is always short of entries and receives, beside the one
// that all share; everybody sends to everybody.
func TestRanksOnTwoProviders(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		const hosts, perHost, each = 3, 3, 6
		w := newWorld(t, efatest.Config{Seed: seed})
		var all []*seat
		for h := range hosts {
			for range perHost {
				near := deviceOf(t, w, sim.DeviceConfig{Name: "near", Net: h + 1})
				dev, err := efa.JoinDevices(near, deviceOf(t, w, sim.DeviceConfig{}))
				require.NoError(t, err)
				all = append(all, seatOn(t, dev, efa.EndpointConfig{}))
			}
		}
		acquaint(all)
		full := strike(t, w, efatest.Rule{Fault: efatest.FaultQueueFull, P: 0.3})
		rnr := strike(t, w, efatest.Rule{Fault: efatest.FaultRNR, P: 0.2})
		sizes := []int{0, 100, 9_000, 40_000, 70_000, 200_000}
		require.Len(t, sizes, each)
		for r, s := range all {
			for q := range all {
				w.Go(fmt.Sprintf("%d to %d", r, q), func(ctx context.Context) error {
					for i, n := range sizes {
						if err := s.ep.SendTag(ctx, s.to[q], uint64(i), fill(n, byte(r))); err != nil {
							return err
						}
					}
					return nil
				})
				w.Go(fmt.Sprintf("%d from %d", r, q), func(ctx context.Context) error {
					buf := make([]byte, 200_000)
					for i, n := range sizes {
						m, err := s.ep.RecvTag(ctx, efa.Match{Tag: uint64(i)}, buf, efa.From(s.to[q]))
						if err != nil {
							return err
						}
						require.True(t, bytes.Equal(fill(n, byte(q)), buf[:m.N]), "%d bytes", n)
					}
					return nil
				})
			}
		}
		require.NoError(t, w.Run())
		require.Positive(t, w.Fabric().Hits(full))
		require.Positive(t, w.Fabric().Hits(rnr))
	})
}

// TestHandshakeThatCannotBePosted: ofiwg/libfabric#6601. The device took no HANDSHAKE when it
// was posted, nobody posted it again, and the sender waited for ever.
func TestHandshakeThatCannotBePosted(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, efatest.Config{Seed: seed})
		s := seats(t, w, 3, sim.DeviceConfig{}, efa.EndpointConfig{})
		alice, bob, carol := s[0], s[1], s[2]
		// The device is full only while there is something under way: what bob sends to carol.
		strike(t, w, efatest.Rule{Fault: efatest.FaultDelay, Delay: time.Second, From: bob.place(), To: carol.place()})
		full := strike(t, w, efatest.Rule{Fault: efatest.FaultQueueFull, From: bob.place(), Times: 5}, wire.TypeHandshake)
		w.Go("bob", func(ctx context.Context) error {
			for range 20 {
				if err := bob.ep.Send(ctx, bob.to[2], fill(8, 1)); err != nil {
					return err
				}
			}
			return nil
		})
		w.Go("carol", func(ctx context.Context) error {
			for range 20 {
				if _, err := carol.ep.Recv(ctx, make([]byte, 8)); err != nil {
					return err
				}
			}
			return nil
		})
		w.Go("alice", func(ctx context.Context) error {
			if err := w.Sleep(time.Microsecond); err != nil { // bob is sending by then
				return err
			}
			return alice.ep.Send(ctx, alice.to[1], fill(100, 2), efa.Complete(efa.Delivered))
		})
		_, err := bob.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 100)})
		require.NoError(t, err)
		require.NoError(t, w.Run())
		require.Positive(t, w.Fabric().Hits(full))
	})
}

// TestFencesWithFewSendEntries: ofiwg/libfabric#6618, #6706. "TX entries exhausted", and then a
// fence of MPI_Win_fence, or the writing of a file, never ended. Here four ranks write to
// all others' windows with four entries each, between barriers.
func TestFencesWithFewSendEntries(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		const ranks, rounds, writers, chunk = 4, 3, 8, 20_000
		w := newWorld(t, efatest.Config{Seed: seed})
		s := seats(t, w, ranks, sim.DeviceConfig{}, efa.EndpointConfig{Protocol: efa.ProtocolConfig{SendQueue: 4, RecvQueue: 8}})
		strike(t, w, efatest.Rule{Fault: efatest.FaultQueueFull, P: 0.2})
		windows := make([]*efa.MemoryRegion, ranks)
		for r := range windows {
			windows[r] = s[r].window(ranks * writers * chunk)
		}
		var arrived, passed int // of a barrier in the simulation, beside that of messages
		fence := func(ctx context.Context, r, round int) error {
			for q := range ranks {
				if err := s[r].ep.SendTag(ctx, s[r].to[q], uint64(round), nil); err != nil {
					return err
				}
			}
			for range ranks {
				if _, err := s[r].ep.RecvTag(ctx, efa.Match{Tag: uint64(round)}, nil); err != nil {
					return err
				}
			}
			return nil
		}
		for r := range ranks {
			busy := 0
			w.Go(fmt.Sprintf("rank %d", r), func(ctx context.Context) error {
				for round := range rounds {
					for k := range writers {
						busy++
						w.Go(fmt.Sprintf("writer %d of rank %d", k, r), func(ctx context.Context) error {
							defer func() { busy-- }()
							for q := range ranks {
								at := s[r].ep.Memory(s[r].to[q], windows[q].Remote().Slice(uint64((r*writers+k)*chunk), chunk))
								if err := at.Write(ctx, fill(chunk, byte(r+k+round)), efa.Complete(efa.Delivered)); err != nil {
									return err
								}
							}
							return nil
						})
					}
					for busy > 0 {
						if err := w.Sleep(time.Microsecond); err != nil {
							return err
						}
					}
					if err := fence(ctx, r, 2*round); err != nil {
						return err
					}
					arrived++
					for at := range ranks * writers {
						got := windows[r].Bytes()[at*chunk:][:chunk]
						require.True(t, bytes.Equal(fill(chunk, byte(at/writers+at%writers+round)), got), "rank %d round %d chunk %d", r, round, at)
					}
					if err := fence(ctx, r, 2*round+1); err != nil {
						return err
					}
					passed++
				}
				return nil
			})
		}
		require.NoError(t, w.Run())
		require.Equal(t, []int{ranks * rounds, ranks * rounds}, []int{arrived, passed})
		for _, x := range s {
			require.Positive(t, x.counter("Queue.SlotWaits"), "entries were never exhausted")
		}
	})
}

// TestEveryPacketMeetsRNR: ofiwg/libfabric#6887. HANDSHAKE, RECEIPT and RTR were dropped when
// the receiver was not ready. Here each type of packet that is not part of a message's data
// meets RNR some times, and the device never tries again by itself.
func TestEveryPacketMeetsRNR(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, efatest.Config{Seed: seed})
		s := seats(t, w, 2, sim.DeviceConfig{RDMARead: true}, efa.EndpointConfig{
			Protocol: efa.ProtocolConfig{RNRRetry: -1, MaxMedium: 20_000, MinRead: 200_000, MinReadWrite: 400_000, NoRDMAWrite: true},
		})
		alice, bob := s[0], s[1]
		rules := map[wire.Type]*efatest.Rule{}
		for _, typ := range []wire.Type{
			wire.TypeHandshake, wire.TypeReceipt, wire.TypeCTS, wire.TypeCTSData, wire.TypeEOR, wire.TypeATOMRSP,
			wire.TypeFetchRTA, wire.TypeDCEagerMsgRTM, wire.TypeDCLongCTSMsgRTM, wire.TypeDCEagerRTW, wire.TypeDCLongCTSRTW,
			wire.TypeLongReadMsgRTM, wire.TypeEagerMsgRTM, wire.TypeMediumMsgRTM,
		} {
			rules[typ] = strike(t, w, efatest.Rule{Fault: efatest.FaultRNR, Times: 3}, typ)
		}
		m, source := bob.window(100_000), alice.window(300_000)
		sizes := []int{8, 15_000, 100_000, 300_000}
		w.Go("bob", func(ctx context.Context) error {
			buf := bob.window(300_000).Bytes()
			for range 2 {
				for _, n := range sizes {
					got, err := bob.ep.Recv(ctx, buf)
					if err != nil {
						return err
					}
					require.Equal(t, n, got.N)
				}
			}
			return nil
		})
		w.Go("alice", func(ctx context.Context) error {
			to := alice.to[1]
			for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
				for _, n := range sizes {
					if err := alice.ep.Send(ctx, to, source.Bytes()[:n], efa.Complete(level)); err != nil {
						return err
					}
				}
			}
			at := alice.ep.Memory(to, m.Remote())
			for _, n := range []int{8, 100_000} {
				if err := at.Slice(0, uint64(n)).Write(ctx, fill(n, 1), efa.Complete(efa.Delivered)); err != nil {
					return err
				}
				back := make([]byte, n)
				if err := at.Slice(0, uint64(n)).Read(ctx, back); err != nil {
					return err
				}
				require.Equal(t, fill(n, 1), back)
			}
			_, err := efa.NewCell[uint64](at.Slice(0, 8)).FetchAdd(ctx, 1)
			return err
		})
		require.NoError(t, w.Run())
		for typ, rule := range rules {
			require.Equal(t, 3, w.Fabric().Hits(rule), "%v", typ)
		}
	})
}

// TestMoreMessagesAheadThanTheWindow: ofiwg/libfabric#10194. When more messages arrived ahead
// of a late one than the reorder window holds, the receiver gave up.
func TestMoreMessagesAheadThanTheWindow(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		const messages = 3000
		w := newWorld(t, efatest.Config{Seed: seed})
		s := seats(t, w, 2, sim.DeviceConfig{}, efa.EndpointConfig{})
		alice, bob := s[0], s[1]
		strike(t, w, efatest.Rule{Fault: efatest.FaultDelay, Delay: time.Second, From: alice.place(), Times: 1}, wire.TypeEagerMsgRTM)
		word := func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) }
		w.Go("alice", func(ctx context.Context) error {
			if err := alice.ep.Send(ctx, alice.to[1], word(0), efa.Inject); err != nil { // it does not wait
				return err
			}
			for i := 1; i < messages; i++ {
				if err := alice.ep.Send(ctx, alice.to[1], word(i)); err != nil {
					return err
				}
			}
			return nil
		})
		w.Go("bob", func(ctx context.Context) error {
			buf := make([]byte, 8)
			for i := range messages {
				if _, err := bob.ep.Recv(ctx, buf); err != nil {
					return err
				}
				require.Equal(t, word(i), buf)
			}
			return nil
		})
		require.NoError(t, w.Run())
		require.Greater(t, bob.counter("Overflow"), uint64(messages/2), "the window was hardly exceeded")
	})
}

// forSeeds plays a scenario in some orders.
func forSeeds(t *testing.T, play func(t *testing.T, seed uint64)) {
	seeds := uint64(3)
	if testenv.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed+1), func(t *testing.T) { play(t, seed+1) })
	}
}

// seat is an endpoint of a scenario, with everything that it needs.
type seat struct {
	t   *testing.T
	dev efa.Device
	dom *efa.Domain
	av  *efa.AddressVector
	ep  *efa.Endpoint
	to  []efa.Addr // the seats, itself included
}

// seatOn opens an endpoint on a device.
func seatOn(t *testing.T, dev efa.Device, cfg efa.EndpointConfig) *seat {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	s := &seat{t: t, dev: dev, dom: dom, av: dom.NewAddressVector()}
	cfg.AV = s.av
	if cfg.RecvQueue == nil {
		cfg.RecvQueue, err = dom.NewQueue(4096)
		require.NoError(t, err)
	}
	s.ep, err = dom.NewEndpoint(cfg)
	require.NoError(t, err)
	require.NoError(t, s.ep.Enable(context.Background()))
	return s
}

func deviceOf(t *testing.T, w *efatest.World, dc sim.DeviceConfig) *efatest.Device {
	t.Helper()
	dev, err := w.Device(dc)
	require.NoError(t, err)
	return dev
}

// seats opens n endpoints that know each other, each on a device of its own.
func seats(t *testing.T, w *efatest.World, n int, dc sim.DeviceConfig, cfg efa.EndpointConfig) []*seat {
	t.Helper()
	var all []*seat
	for range n {
		all = append(all, seatOn(t, deviceOf(t, w, dc), cfg))
	}
	acquaint(all)
	return all
}

// acquaint gives every seat the handles of all.
func acquaint(all []*seat) {
	for _, s := range all {
		s.to = nil
		for _, o := range all {
			s.to = append(s.to, s.knows(o))
		}
	}
}

func (s *seat) knows(o *seat) efa.Addr {
	to, err := s.av.Insert(o.ep.Address())
	require.NoError(s.t, err)
	return to
}

// place is where the endpoint is on the fabric.
func (s *seat) place() sim.Endpoint {
	raw, ok := s.ep.Address().Raw("sim")
	require.True(s.t, ok)
	return sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
}

// window is memory of n bytes that others may read and write.
func (s *seat) window(n int) *efa.MemoryRegion {
	m, err := s.dom.Alloc(n, efa.AccessRemoteRead|efa.AccessRemoteWrite|efa.AccessSend|efa.AccessRecv)
	require.NoError(s.t, err)
	return m
}

// counter reads one of the endpoint's counters.
func (s *seat) counter(name string) uint64 {
	s.t.Helper()
	stats, err := s.ep.Stats(context.Background())
	require.NoError(s.t, err)
	n, ok := stats[name]
	require.True(s.t, ok, "no counter %s", name)
	return n
}

// strike adds a fault of packets of these types.
func strike(t *testing.T, w *efatest.World, r efatest.Rule, types ...wire.Type) *efatest.Rule {
	t.Helper()
	for _, typ := range types {
		r.Types = append(r.Types, byte(typ))
	}
	rule, err := w.Fabric().AddRule(r)
	require.NoError(t, err)
	return rule
}

// fill is content that tells who wrote it, and where.
func fill(n int, who byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = who ^ byte(i*7)
	}
	return b
}

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
