package era

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

func TestByName(t *testing.T) {
	seen := map[string]bool{}
	for i := range All {
		p, ok := ByName(All[i].Name)
		require.True(t, ok)
		require.Equal(t, All[i], p)
		require.False(t, seen[p.Name], "%s twice", p.Name)
		seen[p.Name] = true
	}
	for _, name := range []string{"1.10", "1.13", "1.14", "1.16", "1.17.0", "1.18", "1.20", "1.22", "2.0", "2.2", "2.3.1", "2.6", "2.7"} {
		require.True(t, seen[name], name)
	}
	_, ok := ByName("1.9")
	require.False(t, ok)
}

// TestOf: a release is as the newest one that is known and not newer.
func TestOf(t *testing.T) {
	for release, want := range map[string]string{
		"1.10": "1.10", "1.11.1": "1.10", "1.13.2": "1.13", "1.17.0": "1.17.0", "1.17.1": "1.17.0", "1.18.2": "1.18",
		"2.1.0": "2.0", "2.2.0": "2.2", "2.3.1": "2.3.1", "2.5": "2.3.1", "2.6.1": "2.6", "main": "main", "2.7.0": "2.7", "3.0": "2.7",
		"f71b950ce": "main28", "like27": "2.7",
	} {
		p, ok := Of(release)
		require.True(t, ok, release)
		require.Equal(t, want, p.Name, release)
	}
	for _, release := range []string{"1.9.1", "", "x", "2.x"} {
		_, ok := Of(release)
		require.False(t, ok, release)
	}
}

// TestReleasesAge: successors know all that a release knows, and predecessors lack
// all that it lacks.
func TestReleasesAge(t *testing.T) {
	for i := 1; i < len(All); i++ {
		old, p := &All[i-1], &All[i]
		require.Equal(t, old.Features, p.Knows(old.Features), "%s knows less than %s", p.Name, old.Name)
		for what, have := range map[string][2]bool{
			"ShortAddr":       {old.ShortAddr, p.ShortAddr},
			"NoConnID":        {old.NoConnID, p.NoConnID},
			"ShortEOR":        {old.ShortEOR, p.ShortEOR},
			"NoHostID":        {old.NoHostID, p.NoHostID},
			"NoDeviceVersion": {old.NoDeviceVersion, p.NoDeviceVersion},
			"MediumFirst":     {old.MediumFirst, p.MediumFirst},
			"RMANoWait":       {old.RMANoWait, p.RMANoWait},
			"CQData32":        {old.CQData32, p.CQData32},
			"CreditsAsked":    {old.CreditsAsked, p.CreditsAsked},
			"AbortsAhead":     {old.AbortsAhead, p.AbortsAhead},
			"OneHandshake":    {old.OneHandshake, p.OneHandshake},
		} {
			require.False(t, have[1] && !have[0], "%s came back with %s", what, p.Name)
		}
		for what, have := range map[string][2]bool{
			"AlwaysConnID": {old.AlwaysConnID, p.AlwaysConnID},
			"Unasked":      {old.Unasked, p.Unasked},
			"P2P":          {old.P2P, p.P2P},
			"WriteData32":  {old.WriteData32, p.WriteData32},
		} {
			require.False(t, have[0] && !have[1], "%s is over with %s", what, p.Name)
		}
		require.Less(t, p.Rounding, old.Rounding+1, p.Name)
		require.LessOrEqual(t, p.RecvWindow, old.RecvWindow, p.Name)
		// A release without connid cannot ask for it, and one with a short EOR has
		// no place for it.
		require.NotEqual(t, p.NoConnID, p.Features.Has(wire.FeatureConnIDHeader), p.Name)
		require.Equal(t, p.NoConnID, p.ShortEOR, p.Name)
	}
}

// TestFeaturesAppear has the release in which each feature and request appeared.
func TestFeaturesAppear(t *testing.T) {
	want := map[wire.Feature]string{
		wire.FeatureRDMARead:         "1.10",
		wire.FeatureDeliveryComplete: "1.12",
		wire.FeatureConstantHeader:   "1.13",
		wire.FeatureConnIDHeader:     "1.14",
		wire.FeatureRunt:             "1.16",
		wire.FeatureRDMAWrite:        "1.18",
		wire.FeatureReadNACK:         "1.20",
		wire.FeatureUserRecvQP:       "1.22",
		wire.FeatureUnsolicitedWrite: "2.0",
		wire.FeaturePeerError:        "main",
	}
	for f := range wire.Feature(256) {
		var got string
		for i := len(All) - 1; i >= 0; i-- {
			if All[i].Has(f) {
				got = All[i].Name
			}
		}
		require.Equal(t, want[f], got, "%v", f)
		require.True(t, (&Profile{}).Has(f))
	}
	all := wire.MakeFeatures(0, 1, 9, 200)
	require.Equal(t, all, (&Profile{}).Knows(all))
	require.Equal(t, wire.MakeFeatures(0), All[0].Knows(all))
}
