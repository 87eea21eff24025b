package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
)

func TestKill(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{QKey: 8})
		a.send(1, b, "alive")
		run(a, b)
		b.dev.Kill()
		b.dev.Kill() // once is enough
		a.send(2, b, "dead")
		b.send(1, a, "from the grave")
		run(a)
		require.Equal(t, map[uint64]device.Status{1: device.StatusOK, 2: device.StatusUnresponsive}, a.sent)
		require.Empty(t, a.bytes)
		require.Len(t, a.got, 1)
		require.Equal(t, device.OpGone, a.got[0].Op)
		require.Equal(t, b.at.QPN, a.got[0].SrcQPN)
		require.Equal(t, uint32(8), a.got[0].QKey)

		var c [1]device.Completion
		require.Zero(t, b.Poll(c[:]))
		require.True(t, b.Arm(), "the dead sleep")
		_, err := b.dev.OpenQP(device.QPConfig{})
		require.ErrorIs(t, err, device.ErrClosed)
		require.NoError(t, b.Close())
		require.NoError(t, b.dev.Close())
		a.send(3, b, "still dead")
		run(a)
		require.Equal(t, device.StatusUnresponsive, a.sent[3])
	})
}

// TestSilence: how long a send to a dead or unknown queue pair takes, and that no
// other learns of a death if so configured.
func TestSilence(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Unresponsive: time.Second})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	b.dev.Kill()
	a.send(1, b, "x")
	run(f, a)
	require.Equal(t, device.StatusUnresponsive, a.sent[1])
	require.Equal(t, clock.Time(time.Second), f.Clock().Now())
	require.Empty(t, a.got)
	require.Zero(t, f.Pending())

	nobody := &party{at: sim.Endpoint{GID: sim.IndexGID(77), QPN: 1}}
	a.send(2, nobody, "x")
	run(f, a)
	require.Equal(t, device.StatusUnreachable, a.sent[2])
	require.Equal(t, clock.Time(2*time.Second), f.Clock().Now())
}

// TestStandStill: what arrives at a device that stands still is acknowledged at the end of that.
func TestStandStill(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: time.Millisecond})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	a.send(1, b, "under way")
	b.dev.StandStill(time.Second)
	b.send(1, a, "it may have sent before")
	run(f, a, b)
	require.Equal(t, map[uint64]device.Status{1: device.StatusOK}, a.sent)
	require.Equal(t, clock.Time(time.Second), f.Clock().Now())
	require.Equal(t, []string{"under way"}, b.bytes)
	a.send(2, b, "over")
	run(f, a, b)
	require.Equal(t, clock.Time(time.Second+time.Millisecond), f.Clock().Now())
	require.Len(t, b.bytes, 2)
}

// TestStandStillDirect: nor is anything put straight into the memory of one that stands still.
func TestStandStillDirect(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	a.send(1, b, "first")
	a.poll()
	require.Len(t, a.sent, 1)
	b.dev.StandStill(time.Hour)
	a.send(2, b, "second")
	a.poll()
	b.poll()
	require.Len(t, a.sent, 1)
	require.Len(t, b.bytes, 1)
	b.dev.StandStill(0)
	require.True(t, f.Step())
	a.poll()
	b.poll()
	require.Len(t, a.sent, 2)
	require.Len(t, b.bytes, 2)
}

// TestRestart: a new queue pair has GID and QPN of a dead one. Late packets for the
// dead one are refused by their Q_Key; late ones from it still arrive elsewhere,
// where only the protocol can distinguish them (§4.4).
func TestRestart(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: time.Millisecond})
	a := join(t, f, device.QPConfig{})
	old := join(t, f, device.QPConfig{QPN: 40, QKey: 1})
	a.send(1, old, "for the old one")
	old.send(1, a, "from the old one")
	old.dev.Kill()

	d, err := f.OpenDevice(sim.DeviceConfig{GID: old.at.GID})
	require.NoError(t, err)
	fresh := joinOn(t, d, device.QPConfig{QPN: 40, QKey: 2})
	require.Equal(t, old.at, fresh.at)
	fresh.send(1, a, "from the new one")
	run(f, a, fresh)
	require.Equal(t, device.StatusBadDestQPN, a.sent[1])
	require.Empty(t, fresh.got)
	require.Equal(t, []string{"from the old one", "from the new one"}, a.bytes)
	require.Equal(t, a.got[0].SrcQPN, a.got[1].SrcQPN)
	require.Equal(t, a.got[0].SrcGID, a.got[1].SrcGID)

	a.send(2, fresh, "hello")
	run(f, a, fresh)
	require.Equal(t, device.StatusOK, a.sent[2])
	require.NoError(t, old.Close())
	a.send(3, fresh, "the old one's Close does it no harm")
	run(f, a, fresh)
	require.Equal(t, device.StatusOK, a.sent[3])
}

// TestSharedPort: two devices with one GID are like two processes of a host.
func TestSharedPort(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	a, b := join(t, f, device.QPConfig{}), join(t, f, device.QPConfig{})
	d, err := f.OpenDevice(sim.DeviceConfig{Name: "second", GID: b.at.GID})
	require.NoError(t, err)
	require.Equal(t, "second", d.Info().Name)
	_, err = d.OpenQP(device.QPConfig{QPN: b.at.QPN})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	c := joinOn(t, d, device.QPConfig{})
	require.NotEqual(t, b.at, c.at)
	a.send(1, b, "b")
	a.send(2, c, "c")
	b.poll()
	c.poll()
	require.Equal(t, "b", b.bytes[0])
	require.Equal(t, "c", c.bytes[0])

	// One of two goes: its number is free, the port is there. Then both.
	require.NoError(t, b.Close())
	require.NoError(t, b.dev.Close())
	a.send(3, b, "x")
	a.poll()
	require.Equal(t, device.StatusBadDestQPN, a.sent[3])
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
	a.send(4, b, "x")
	for len(a.sent) < 4 {
		a.poll()
	}
	require.Equal(t, device.StatusUnreachable, a.sent[4])

	other, err := f.OpenDevice(sim.DeviceConfig{GID: sim.IndexGID(3)})
	require.NoError(t, err)
	next, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	require.NotEqual(t, other.Info().GID, next.Info().GID, "given GIDs are stepped over")
}
