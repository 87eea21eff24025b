package efatest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

var flagPeers = flag.Int("peers", 1000, "how many peers come to one endpoint and go in TestPeersThatComeAndGo")

// ledgerDevice counts what its only queue pair has lent to the device.
type ledgerDevice struct {
	efa.Device
	slots, handles int
}

func (d *ledgerDevice) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	return &ledgerQP{qp, d}, err
}

type ledgerQP struct {
	device.QP
	d *ledgerDevice
}

func (q *ledgerQP) PostRecv(slots []int32) {
	q.d.slots += len(slots)
	q.QP.PostRecv(slots)
}

func (q *ledgerQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if c[i].Op == device.OpRecv {
			q.d.slots--
		}
	}
	return n
}

func (q *ledgerQP) CreateAH(gid device.GID) (device.AH, error) {
	ah, err := q.QP.CreateAH(gid)
	if err == nil {
		q.d.handles++
	}
	return ah, err
}

func (q *ledgerQP) DestroyAH(ah device.AH) error {
	q.d.handles--
	return q.QP.DestroyAH(ah)
}

// crowd is one endpoint and the peers that come to it.
type crowd struct {
	t     *testing.T
	w     *efatest.World
	dev   *ledgerDevice
	hub   *seat
	hosts []*seat             // of the visitors; their endpoints come and go
	back  map[uint32]efa.Addr // by life: those whose address is known, who are answered
	left  int                 // lives to come
	next  uint32
	busy  int // visitors that have lives to live
	kills bool
	most  int // peers that there were at a time
}

const crowdTimeout = time.Second

// residue is how many of those that have left may not have been found out.
const residue = 16

// TestPeersThatComeAndGo: many endpoints talk to one, some of them known to it, and
// close or are killed with their host. Afterwards it is as it was before:
//
//	go test ./api/efatest -run TestPeersThatComeAndGo -v -timeout 1h -peers 10000
func TestPeersThatComeAndGo(t *testing.T) {
	peers := less(*flagPeers)
	if underRace {
		peers = min(peers, 200)
	}
	w := newWorld(t, efatest.Config{Seed: 5, Fabric: efatest.FabricConfig{ReportGone: true, MTU: 4096}, MaxTime: time.Hour})
	c := &crowd{t: t, w: w, back: make(map[uint32]efa.Addr), left: peers}
	c.dev = &ledgerDevice{Device: deviceOf(t, w, sim.DeviceConfig{})}
	c.hub = seatOn(t, c.dev, efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: crowdTimeout, ProbeAfter: crowdTimeout / 4}})
	for range 8 {
		c.hosts = append(c.hosts, c.host(device.GID{}))
	}
	c.kills = true
	c.live(peers/4, len(c.hosts))
	c.kills = false
	early := heapInUse()
	c.live(peers-peers/4, len(c.hosts))
	late := heapInUse()
	// Those who left last are found out when others come, one after the other.
	for i := 0; i < peers && len(c.snapshot().Peers) > residue; i++ {
		w.Go("a while", func(context.Context) error { return w.Sleep(2 * crowdTimeout) })
		require.NoError(t, w.Run())
		c.live(1, 1)
	}
	w.Go("rest", func(context.Context) error { return w.Sleep(2 * crowdTimeout) })
	require.NoError(t, w.Run())

	s := c.snapshot()
	require.LessOrEqual(t, len(s.Peers), residue, "peers")
	require.LessOrEqual(t, c.dev.handles, len(s.Peers)+4, "address handles")
	require.InDelta(t, sim.DefaultDepth, c.dev.slots, 7, "receive slots: they are given back in batches of 8")
	require.Zero(t, s.Queues.SendUsed, "packet entries")
	require.Zero(t, s.Queues.HeldBytes)
	require.Zero(t, s.Queues.Unexpected)
	require.Zero(t, s.Counters["TxInUse"])
	require.Zero(t, s.Counters["RxInUse"])
	require.Zero(t, s.Counters["Crowded"])
	require.Zero(t, s.Counters["Violations"])
	if !underRace {
		// The table of actors grows to what it needs for those that come and go at a time.
		require.Less(t, late-early, int64(8<<20+512*peers), "bytes of the heap")
	}
	t.Logf("%d peers in %v of simulated time, %d at a time; %d are left; the heap grew by %d bytes",
		peers, w.Elapsed(), c.most, len(s.Peers), late-early)
	require.NoError(t, c.hub.ep.Close())
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (c *crowd) snapshot() *efa.Snapshot {
	s, err := c.hub.ep.Snapshot(context.Background())
	require.NoError(c.t, err)
	c.most = max(c.most, len(s.Peers))
	return s
}

// live has n peers come and go, some at a time.
func (c *crowd) live(n, hosts int) {
	c.left, c.busy = n, hosts
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.w.Go("hub", func(context.Context) error { return c.answer(ctx) })
	for host := range hosts {
		c.w.Go("visitors", func(ctx context.Context) error {
			defer func() {
				if c.busy--; c.busy == 0 {
					stop()
				}
			}()
			return c.visit(ctx, host)
		})
	}
	require.NoError(c.t, c.w.Run())
	c.snapshot()
}

// answer receives all messages and answers the peers that are known.
func (c *crowd) answer(ctx context.Context) error {
	buf := make([]byte, 20000)
	for {
		m, err := c.hub.ep.Recv(ctx, buf)
		if errors.Is(err, efa.ErrCanceled) && ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		life := binary.LittleEndian.Uint32(buf)
		if string(buf[4:m.N]) != string(fill(m.N-4, byte(life))) {
			return fmt.Errorf("life %d: wrong content", life)
		}
		if to, known := c.back[life]; known {
			_ = c.hub.ep.Send(ctx, to, fill(8, byte(life))) // a peer that has it may be removed already
		}
	}
}

// small has a visitor's buffers made quickly.
var small = efa.ProtocolConfig{SendQueue: 16, RecvQueue: 16}

// visit is the lives of a host's endpoints, one after the other.
func (c *crowd) visit(ctx context.Context, host int) error {
	for c.left > 0 {
		c.left--
		c.next++
		life, s := c.next, c.hosts[host]
		var err error
		if s.ep, err = s.dom.NewEndpoint(efa.EndpointConfig{AV: s.av, Protocol: small}); err != nil {
			return err
		}
		if err := s.ep.Enable(ctx); err != nil {
			return err
		}
		if err := c.talk(ctx, s, life); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if c.kills && life%10 == 0 { // what is left of a host is kept by the world
			s.end(true)
			c.hosts[host] = c.host(s.dev.Info().GID)
		} else {
			s.end(false)
		}
		if to, known := c.back[life]; known {
			delete(c.back, life)
			if err := c.hub.av.Remove(ctx, to); err != nil {
				return err
			}
		}
		if err := c.w.Sleep(time.Duration(c.w.Rand().IntN(int(100 * time.Millisecond)))); err != nil {
			return err
		}
	}
	return nil
}

// host is one that has just been switched on.
func (c *crowd) host(gid device.GID) *seat {
	s := &seat{t: c.t, dev: deviceOf(c.t, c.w, sim.DeviceConfig{GID: gid})}
	fab, err := efa.Open(efa.Config{Device: s.dev})
	require.NoError(c.t, err)
	s.dom, err = fab.OpenDomain(efa.DomainConfig{})
	require.NoError(c.t, err)
	s.av = s.dom.NewAddressVector()
	return s
}

// talk is a life: some messages, and an answer to each if the other side can give one.
func (c *crowd) talk(ctx context.Context, s *seat, life uint32) error {
	hub := s.knows(c.hub)
	known := life%3 == 0
	if known {
		c.back[life] = c.hub.knows(s)
	}
	for _, n := range []int{8, 15000, 100} {
		b := binary.LittleEndian.AppendUint32(nil, life)
		if err := s.ep.Send(ctx, hub, append(b, fill(n, byte(life))...), efa.Complete(efa.Delivered)); err != nil {
			return err
		}
		if known {
			if _, err := s.ep.Recv(ctx, make([]byte, 8)); err != nil {
				return err
			}
		}
	}
	return nil
}
