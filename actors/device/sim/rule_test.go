package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
)

// modes are the ways a fabric runs; faults are the same in each.
var modes = map[string]sim.Config{
	"virtual":   {Virtual: true},
	"immediate": {InOrder: true},
	"held":      {},
}

func inModes(t *testing.T, test func(t *testing.T, f *sim.Fabric, run func(...*party))) {
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			cfg.ReportGone = true
			f := newFabric(t, cfg)
			test(t, f, func(ps ...*party) {
				if cfg.Virtual {
					run(f, ps...)
					return
				}
				for quiet := 0; quiet < 3; {
					quiet++
					for _, p := range ps {
						p.poll()
						if !p.Arm() {
							quiet = 0
						}
					}
				}
			})
		})
	}
}

func add(t *testing.T, f *sim.Fabric, r sim.Rule) *sim.Rule {
	t.Helper()
	rule, err := f.AddRule(r)
	require.NoError(t, err)
	return rule
}

// TestScriptedRNR: the next packet of one type from a to b is refused twice; others
// are not affected.
func TestScriptedRNR(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a, b := join(t, f, device.QPConfig{RNRRetry: 1}), join(t, f, device.QPConfig{RNRRetry: 1})
		rule := add(t, f, sim.Rule{Fault: sim.FaultRNR, From: a.at, To: b.at, Types: []byte{4}, Times: 2})
		a.send(1, b, "\x03 CTS")
		b.send(1, a, "\x04 CTSDATA")
		a.send(2, b, "\x04 CTSDATA")
		run(a, b)
		require.Equal(t, map[uint64]device.Status{1: device.StatusOK, 2: device.StatusRNR}, a.sent)
		require.Equal(t, []string{"\x03 CTS"}, b.bytes)
		require.Equal(t, []string{"\x04 CTSDATA"}, a.bytes)
		require.Equal(t, 2, f.Hits(rule))
		require.Equal(t, uint64(2), f.Count(sim.FaultRNR))
		a.send(3, b, "\x04 CTSDATA")
		run(a, b)
		require.Equal(t, device.StatusOK, a.sent[3])
	})
}

func TestRuleSkipAndRemove(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	rule := add(t, f, sim.Rule{Fault: sim.FaultStatus, Status: device.StatusAbort, Skip: 2})
	for id := range uint64(4) {
		a.send(id, b, "x")
	}
	f.RemoveRule(rule)
	a.send(4, b, "x")
	a.poll()
	require.Equal(t, map[uint64]device.Status{
		0: device.StatusOK, 1: device.StatusOK, 2: device.StatusAbort, 3: device.StatusAbort, 4: device.StatusOK,
	}, a.sent)
	require.Equal(t, 2, f.Hits(rule))
	require.Zero(t, f.Count(sim.Fault(200)))
}

func TestRuleChecked(t *testing.T) {
	for _, r := range []sim.Rule{
		{Fault: sim.FaultRefuseAH + 1},
		{Fault: sim.FaultRNR, P: 1.5},
		{Fault: sim.FaultRNR, P: -1},
		{Fault: sim.FaultRNR, Times: -1},
		{Fault: sim.FaultRNR, Skip: -1},
		{Fault: sim.FaultDelay, Delay: -1},
		{Fault: sim.FaultStatus},
	} {
		_, err := sim.New(sim.Config{Rules: []sim.Rule{r}})
		require.ErrorIs(t, err, sim.ErrConfig)
	}
	for _, c := range []sim.Config{
		{MTU: 1}, {MTU: 1 << 30}, {Window: -1}, {Delay: -1}, {MaxSQ: -1}, {CopyLate: true},
	} {
		_, err := sim.New(c)
		require.ErrorIs(t, err, sim.ErrConfig, "%+v", c)
	}
}

func TestUnknownAHFault(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
		ah, err := b.CreateAH(a.at.GID)
		require.NoError(t, err)
		add(t, f, sim.Rule{Fault: sim.FaultUnknownAH, Times: 1})
		a.send(1, b, "x")
		run(a, b)
		a.send(2, b, "y")
		run(a, b)
		require.Len(t, b.got, 2)
		require.Equal(t, device.UnknownAH, b.got[0].AH)
		require.Equal(t, a.at.GID, b.got[0].SrcGID)
		require.Equal(t, ah, b.got[1].AH)
	})
}

// TestQueueFullFault strikes while something is outstanding, and only then.
func TestQueueFullFault(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
		add(t, f, sim.Rule{Fault: sim.FaultQueueFull})
		for id := range uint64(5) {
			a.send(id, b, "x")
			require.ErrorIs(t, a.PostSend(a.wr(99, b, "y")), device.ErrQueueFull)
			run(a, b)
		}
		require.Len(t, a.sent, 5)
		require.Len(t, b.got, 5)
		require.Equal(t, uint64(5), f.Count(sim.FaultQueueFull))
	})
}

func TestRefuseQPFault(t *testing.T) {
	f := newFabric(t, sim.Config{Rules: []sim.Rule{{Fault: sim.FaultRefuseQP, Times: 2}}, MaxQP: 1})
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	for range 2 {
		_, err = d.OpenQP(device.QPConfig{QPN: 5})
		require.ErrorIs(t, err, device.ErrNoMemory)
	}
	qp, err := d.OpenQP(device.QPConfig{QPN: 5})
	require.NoError(t, err, "the refused ones left nothing behind")
	_, err = d.OpenQP(device.QPConfig{})
	require.ErrorIs(t, err, device.ErrNoMemory, "one queue pair is the limit")
	require.ErrorIs(t, d.Close(), sim.ErrBusy)
	require.NoError(t, qp.Close())
	require.NoError(t, d.Close())
}

// TestDelayFaults: a late packet and a late status delay no other.
func TestDelayFaults(t *testing.T) {
	for _, k := range []sim.Fault{sim.FaultDelay, sim.FaultLateStatus} {
		f := newFabric(t, sim.Config{Virtual: true, InOrder: true})
		a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
		add(t, f, sim.Rule{Fault: k, Types: []byte{'s'}, Delay: time.Hour})
		a.send(1, b, "slow")
		a.send(2, b, "fast")
		for f.Clock().Now() == 0 && f.Step() {
			a.poll()
			b.poll()
		}
		require.Equal(t, device.StatusOK, a.sent[2])
		require.Greater(t, f.Clock().Now(), clock.Time(time.Second))
		if k == sim.FaultDelay {
			require.Equal(t, []string{"fast", "slow"}, b.bytes)
		} else {
			require.Equal(t, []string{"slow", "fast"}, b.bytes)
		}
		run(f, a, b)
		require.Len(t, a.sent, 2)
	}
}

// TestHeldPacketsAreNotStuck: only the queue pair under test polls, and nothing is
// stuck.
func TestHeldPacketsAreNotStuck(t *testing.T) {
	f := newFabric(t, sim.Config{Window: 8})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})

	a.send(1, b, "held")
	require.Equal(t, 1, f.Pending())
	require.False(t, b.Arm(), "the receiver fetches it when it wants to sleep")
	b.poll()
	require.Equal(t, []string{"held"}, b.bytes)

	require.True(t, b.Arm())
	a.send(2, b, "to a sleeper")
	require.Zero(t, f.Pending())
	require.Equal(t, 1, b.notices)
	b.poll()

	a.send(3, b, "sender sleeps")
	require.False(t, a.Arm(), "completions are ready")
	require.Zero(t, f.Pending())
	a.poll()
	b.poll()
	require.Len(t, b.bytes, 3)
	require.Len(t, a.sent, 3)

	a.send(4, b, "sender closes")
	require.NoError(t, a.Close())
	b.poll()
	require.Len(t, b.bytes, 4)
}
