package wireshark_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// sink passes records on to several sinks.
type sink struct {
	clock.Clock
	to []*recording
}

func (s *sink) Packet(r tap.Record) {
	for _, rec := range s.to {
		rec.Packet(r)
	}
}

// node is an endpoint of the session.
type node struct {
	ep    *efa.Endpoint
	dom   *efa.Domain
	peer  efa.Addr
	local *efa.MemoryRegion // registered, and the peer may use it
}

const room = 40_000

// pair opens two endpoints that know each other, one on each fabric.
func pair(t *testing.T, fabs []*efa.Fabric, cfg efa.ProtocolConfig) (pair [2]*node) {
	t.Helper()
	var avs [2]*efa.AddressVector
	for i, fab := range fabs {
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		avs[i] = dom.NewAddressVector()
		ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: avs[i], Protocol: cfg})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(t.Context()))
		local, err := dom.Alloc(room, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead|efa.AccessRemoteWrite)
		require.NoError(t, err)
		pair[i] = &node{ep: ep, dom: dom, local: local}
	}
	for i, n := range pair {
		var err error
		n.peer, err = avs[i].Insert(pair[1-i].ep.Address())
		require.NoError(t, err)
	}
	return pair
}

// session runs mixed traffic between two devices on a fabric that shuffles packets and
// refuses some, and records the packets at each device, and at both.
func session(t *testing.T, seed uint64) (one, other, both *recording) {
	t.Helper()
	w, err := efatest.New(efatest.Config{Seed: seed, Fabric: sim.Config{MTU: 2048, Delay: 2 * time.Microsecond, Jitter: 20 * time.Microsecond}})
	require.NoError(t, err)
	_, err = w.Fabric().AddRule(sim.Rule{Fault: sim.FaultRNR, P: 0.05})
	require.NoError(t, err)
	one, other, both = newRecording(t), newRecording(t), newRecording(t)
	var fabs []*efa.Fabric
	for _, rec := range []*recording{one, other} {
		dev, err := w.Device(sim.DeviceConfig{RDMARead: true, LocalKeys: true})
		require.NoError(t, err)
		fab, err := efa.Open(efa.Config{Device: tap.Wrap(dev, &sink{w.Fabric().Clock(), []*recording{rec, both}})})
		require.NoError(t, err)
		fabs = append(fabs, fab)
	}
	emulated := efa.ProtocolConfig{NoRDMARead: true, NoRDMAWrite: true, MaxMedium: 5000, Credits: 2, RNRRetry: -1}
	reads := efa.ProtocolConfig{MaxMedium: 5000, MinRead: 6000, MinReadWrite: 6000, RuntSize: 2500, Credits: 2, RNRRetry: -1}
	for i, cfg := range []efa.ProtocolConfig{emulated, reads} {
		p := pair(t, fabs, cfg)
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for j, n := range p {
			traffic(w, n, p[1-j], rng)
		}
	}
	require.NoError(t, w.Run())
	return one, other, both
}

// things is how many things there are to do; see request.
const things = 240

// request returns the i-th thing to do.
func (n *node) request(i int, other *node) efa.Request {
	size := []int{0, 100, 3000, 5000, 9000, 14_000}[i/10%6]
	level := []efa.Level{0, efa.Delivered}[i/60%2]
	mem := make([]byte, size)
	if i/120 == 0 {
		mem = n.local.Bytes()[:size]
	}
	at := other.local.Remote().Slice(uint64(i), room-things) // no two requests are alike
	atomic := &efa.AtomicReq{
		To: n.peer, At: other.local.Remote().Slice(uint64(8*i), 8), Op: amo.Sum, Type: wire.DatatypeInt64,
		Operand: make([]byte, 8), Level: level,
	}
	switch i % 10 {
	case 0, 1, 2, 3:
		return &efa.SendReq{To: n.peer, Buf: mem, Tagged: i%2 == 0, Tag: uint64(i), Level: level}
	case 4, 5:
		return &efa.WriteReq{To: n.peer, At: at, Buf: mem, Level: level}
	case 6:
		return &efa.ReadReq{From: n.peer, At: at, Buf: mem}
	case 7:
		return atomic
	case 8:
		atomic.Form, atomic.Result, atomic.Level = amo.Fetch, make([]byte, 8), 0
		return atomic
	default:
		atomic.Op, atomic.Form, atomic.Level = amo.CompareSwap, amo.Compare, 0
		atomic.Compare, atomic.Result = make([]byte, 8), make([]byte, 8)
		return atomic
	}
}

// traffic adds two programs: one does all things to other, in an order of its own, and
// one receives there what is a message.
func traffic(w *efatest.World, n, other *node, rng *rand.Rand) {
	w.Go("doing", func(ctx context.Context) error {
		var ops []*efa.Op
		for _, i := range rng.Perm(things) {
			op, err := n.ep.Start(n.request(i, other))
			if err != nil {
				return err
			}
			ops = append(ops, op)
			if err := w.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond); err != nil {
				return err
			}
		}
		return wait(ctx, ops)
	})
	w.Go("receiving", func(ctx context.Context) error {
		var ops []*efa.Op
		for i := range things {
			if i%10 > 3 {
				continue
			}
			mem := make([]byte, room)
			if i%4 < 2 {
				mem = other.local.Bytes()
			}
			op, err := other.ep.Start(&efa.RecvReq{Buf: mem, Tagged: i%2 == 0, Tag: uint64(i)})
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		return wait(ctx, ops)
	})
}

func wait(ctx context.Context, ops []*efa.Op) error {
	for _, op := range ops {
		if _, err := op.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
