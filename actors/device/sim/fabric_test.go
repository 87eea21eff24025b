package sim_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
)

// everyFault is a rule of each kind at some probability.
func everyFault() []sim.Rule {
	return []sim.Rule{
		{Fault: sim.FaultQueueFull, P: 0.05},
		{Fault: sim.FaultRefuseQP, P: 0.2},
		{Fault: sim.FaultRNR, P: 0.1},
		{Fault: sim.FaultUnknownAH, P: 0.1},
		{Fault: sim.FaultStatus, P: 0.05, Status: device.StatusAbort},
		{Fault: sim.FaultDelay, P: 0.2, Delay: time.Millisecond},
		{Fault: sim.FaultLateStatus, P: 0.2, Delay: time.Millisecond},
		{Fault: sim.FaultRefuseMR, P: 0.3},
	}
}

// traffic plays a seeded program on a virtual fabric with all faults, deaths and
// restarts, and returns the fabric's log.
func traffic(t *testing.T, seed uint64, counts *[8]uint64) string {
	t.Helper()
	var log bytes.Buffer
	f := newFabric(t, sim.Config{
		Seed: seed, Virtual: true, Jitter: 20 * time.Microsecond, ReportGone: true,
		Rules: everyFault(), Hook: sim.TextLog(&log),
	})
	rng := rand.New(rand.NewPCG(seed, 99))
	var parties []*party
	regions := map[*party]device.MR{}
	open := func() {
		d, err := f.OpenDevice(sim.DeviceConfig{
			RDMARead: true, RDMAWrite: true, UnsolicitedWrite: seed%2 == 0, MaxRDMA: 500,
		})
		require.NoError(t, err)
		mr, err := d.Alloc(400, device.RemoteRead|device.RemoteWrite)
		for ; err != nil; mr, err = d.Alloc(400, device.RemoteRead|device.RemoteWrite) {
			require.ErrorIs(t, err, device.ErrNoMemory)
		}
		cfg := device.QPConfig{SQDepth: 4, RQDepth: 4, RNRRetry: 2, QKey: rng.Uint32()}
		for {
			qp, err := d.OpenQP(cfg)
			if err == nil {
				require.NoError(t, qp.Close())
				break
			}
			require.ErrorIs(t, err, device.ErrNoMemory)
		}
		for tries := 0; ; tries++ {
			qp, err := d.OpenQP(cfg)
			if err != nil {
				continue
			}
			p := &party{t: t, dev: d, qkey: cfg.QKey, sent: map[uint64]device.Status{}, QP: qp.(*sim.QP)}
			p.at = sim.Endpoint{GID: d.Info().GID, QPN: qp.QPN()}
			p.postAll()
			parties = append(parties, p)
			regions[p] = mr
			return
		}
	}
	for range 4 {
		open()
	}
	for i := range uint64(600) {
		p, to := parties[rng.IntN(len(parties))], parties[rng.IntN(len(parties))]
		switch rng.IntN(6) {
		case 0, 1:
			if err := p.PostSend(p.wr(i, to, strings.Repeat("x", rng.IntN(300)))); err == nil {
				p.Doorbell()
			}
		case 2, 3: // one in four goes beyond the region
			wr := p.rdma(i, to, device.WRRead, bytes.Repeat([]byte{byte(i)}, rng.IntN(300)), regions[to])
			if rng.IntN(2) == 0 {
				wr.Kind, wr.HasImm, wr.Imm = device.WRWrite, rng.IntN(2) == 0, rng.Uint32()
			}
			wr.Remote += uint64(rng.IntN(300))
			if err := p.PostSend(wr); err == nil {
				p.Doorbell()
			}
		case 4:
			p.poll()
		default:
			f.Step()
		}
		if i%150 == 149 {
			at := rng.IntN(len(parties))
			parties[at].dev.Kill()
			require.NoError(t, parties[at].Close())
			require.NoError(t, regions[parties[at]].Close())
			parties = append(parties[:at], parties[at+1:]...)
			open()
		}
	}
	run(f, parties...)
	for k := range counts {
		counts[k] += f.Count(sim.Fault(k))
	}
	for _, p := range parties {
		require.Zero(t, p.Outstanding())
		fmt.Fprintln(&log, p.got, p.sent[0], len(p.sent), p.Stats())
		fmt.Fprintf(&log, "%x %x %x\n", regions[p].Addr(), regions[p].RKey(), regions[p].Bytes())
	}
	return log.String()
}

// TestRepeatable: one seed, one log; other seeds, other logs; every fault strikes.
func TestRepeatable(t *testing.T) {
	var counts [8]uint64
	logs := map[string]uint64{}
	for seed := range uint64(10) {
		first, second := traffic(t, seed, &counts), traffic(t, seed, &counts)
		if first != second {
			t.Fatalf("seed %d: two runs differ\n%s", seed, firstDifference(first, second))
		}
		require.NotContains(t, logs, first)
		logs[first] = seed
		for _, word := range []string{"post", "arrive", "status", "gone", "kill", "open", "close", "fault", "read", "write"} {
			require.Contains(t, first, " "+word+" ", "seed %d", seed)
		}
	}
	for k, n := range counts {
		require.Greater(t, n, uint64(20), "%v", sim.Fault(k))
	}
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, as[i], bs[i])
		}
	}
	return "one is longer"
}

func TestLogLine(t *testing.T) {
	var log bytes.Buffer
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: 3 * time.Microsecond, Hook: sim.TextLog(&log)})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{QPN: 9, QKey: 0xbeef})
	a.send(1, b, "\x05abc")
	run(f, a, b)
	require.Equal(t, `0 open fe80:0:0:0:0:0:0:1/1
0 open fe80:0:0:0:0:0:0:2/9
0 post #1 fe80:0:0:0:0:0:0:1/1 -> fe80:0:0:0:0:0:0:2/9 qkey=0000beef type=5 len=4 crc=dcffb7fe
3000 arrive #1 fe80:0:0:0:0:0:0:1/1 -> fe80:0:0:0:0:0:0:2/9 qkey=0000beef type=5 len=4 crc=dcffb7fe: ok
3000 status #1 fe80:0:0:0:0:0:0:1/1 -> fe80:0:0:0:0:0:0:2/9: ok
`, log.String())
}

// TestVirtualTime: nothing happens by itself, time moves by Step alone, and an
// armed queue pair is notified of an arrival.
func TestVirtualTime(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: 5 * time.Microsecond})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	_, some := f.NextEvent()
	require.False(t, some)
	require.False(t, f.Step())
	require.True(t, a.Arm())
	require.True(t, b.Arm())
	f.AdvanceTo(1000)
	a.send(1, b, "x")
	require.Equal(t, 1, f.Pending())
	at, some := f.NextEvent()
	require.True(t, some)
	require.Equal(t, clock.Time(6000), at)
	b.poll()
	require.Empty(t, b.got)
	require.True(t, b.Arm())
	require.Equal(t, clock.Time(1000), f.Clock().Now())

	require.True(t, f.Step())
	require.Equal(t, clock.Time(6000), f.Clock().Now())
	require.Equal(t, 1, a.notices)
	require.Equal(t, 1, b.notices)
	b.poll()
	require.Len(t, b.got, 1)

	// Overdue events happen now, not in the past.
	a.send(2, b, "y")
	f.AdvanceTo(50_000)
	f.AdvanceTo(40_000)
	at, _ = f.NextEvent()
	require.Equal(t, clock.Time(50_000), at)
	require.True(t, f.Step())
	require.Equal(t, clock.Time(50_000), f.Clock().Now())
}

// TestVirtualResends: the timer of a resend wakes an owner that armed for it.
func TestVirtualResends(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, RNRDelay: 100 * time.Microsecond})
	a := join(t, f, device.QPConfig{RNRRetry: 3})
	b := join(t, f, device.QPConfig{RQDepth: 1})
	b.at.QPN = b.QPN()
	rule, err := f.AddRule(sim.Rule{Fault: sim.FaultRNR})
	require.NoError(t, err)
	a.send(1, b, "x")
	run(f, a, b)
	require.Equal(t, map[uint64]device.Status{1: device.StatusRNR}, a.sent)
	require.Equal(t, 4, f.Hits(rule), "one send and three resends")
	require.Equal(t, clock.Time(100_000+200_000+400_000), f.Clock().Now())
	require.Positive(t, a.notices)
}

// TestCopyLate: a caller that changes a buffer that the device still has sends
// garbage; after Close the buffer is the caller's and the packet is as it was.
func TestCopyLate(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, CopyLate: true})
	a, b := join(t, f, device.QPConfig{RNRRetry: 7}), join(t, f, device.QPConfig{})
	require.False(t, a.dev.Info().CopiesAtPost)
	wr := a.wr(1, b, "good")
	require.NoError(t, a.PostSend(wr))
	copy(wr.Header, "evil")
	run(f, a, b)
	wr = a.wr(2, b, "last")
	require.NoError(t, a.PostSend(wr))
	require.NoError(t, a.Close())
	copy(wr.Header, "evil")
	run(f, b)
	require.Equal(t, []string{"evil", "last"}, b.bytes)
}
