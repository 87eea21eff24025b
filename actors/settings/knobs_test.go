package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestHabits: what an endpoint goes by that has the habits of another release.
func TestHabits(t *testing.T) {
	i := device.Info{MTU: 8000}
	on := func(h Habits, s Settings) InForce {
		return InForce{Settings: s, Features: wire.MakeFeatures(0, 1, 9), Knobs: Knobs{Habits: h}}.On(&i)
	}
	plain := on(Habits{}, Settings{})
	require.Equal(t, wire.MakeFeatures(0, 1, 9), plain.Features)
	require.Equal(t, RoundDown, plain.Rounding)
	require.Equal(t, 16, plain.RecvWindow)
	require.Equal(t, plain.Credits, plain.ReadCredits)

	require.Equal(t, wire.MakeFeatures(1), on(Habits{Limited: true, Features: wire.MakeFeatures(1, 2)}, Settings{}).Features)
	require.Equal(t, 16384, on(Habits{RecvWindow: 16384}, Settings{}).RecvWindow)
	require.Equal(t, 5, on(Habits{RecvWindow: 16384}, Settings{RecvWindow: 5}).RecvWindow, "what was set comes first")
	require.Equal(t, Fill, on(Habits{Rounding: Fill}, Settings{}).Rounding)
	own := InForce{Knobs: Knobs{Rounding: RoundUp, Habits: Habits{Rounding: Fill}}}.On(&i)
	require.Equal(t, RoundUp, own.Rounding)

	whole := on(Habits{RTRWhole: true}, Settings{Credits: 3})
	require.Equal(t, 3, whole.Credits)
	require.Equal(t, MaxReadCredits, whole.ReadCredits)
	again := whole.On(&i)
	require.Equal(t, MaxReadCredits, again.ReadCredits)

	// MediumFirst: nothing is read that fits a medium message, or a packet.
	for _, c := range []struct{ minRead, maxMedium, want int }{
		{1000, 0, 65537},
		{1000, 20000, 20001},
		{1000, 500, 8000},
		{1000, -1, 8000},
		{1 << 20, 65536, 1 << 20},
		{-1, 65536, -1},
	} {
		s := Settings{MinRead: c.minRead, MaxMedium: c.maxMedium}
		require.Equal(t, c.want, on(Habits{MediumFirst: true}, s).MinRead, "%+v", c)
		require.Equal(t, c.minRead, on(Habits{}, s).MinRead)
	}
}

// TestKnows: a release that is not limited knows everything.
func TestKnows(t *testing.T) {
	all := wire.MakeFeatures(0, 1, 9, 200)
	require.Equal(t, all, (&Habits{}).Knows(all))
	require.True(t, (&Habits{}).Has(9))
	h := Habits{Limited: true, Features: wire.MakeFeatures(1, 3)}
	require.Equal(t, wire.MakeFeatures(1), h.Knows(all))
	require.True(t, h.Has(3))
	require.False(t, h.Has(9))
}

// TestAnnounceAborts: software devices announce PEER_ERROR always, EFA if it is asked for.
func TestAnnounceAborts(t *testing.T) {
	for _, c := range []struct {
		device string
		asked  bool
		want   bool
	}{
		{"sim", false, true},
		{"shm:/dev/shm/x", false, true},
		{"tcp:127.0.0.1", false, true},
		{"efa:rdmap0s6", false, false},
		{"efa:rdmap0s6", true, true},
	} {
		f := Features(&Settings{AnnounceAborts: c.asked}, &device.Info{Name: c.device})
		require.Equal(t, c.want, f.Has(wire.FeaturePeerError), "%+v", c)
	}
}
