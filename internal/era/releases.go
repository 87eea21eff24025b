package era

import (
	"slices"
	"strconv"
	"strings"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// All holds the releases at which something on the wire changed, oldest first, and
// those that were captured. Each stands for the releases up to the next one. "main"
// is libfabric after 2.6.
var All = []Profile{
	{
		Name: "1.10",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureRDMARead), RecvWindow: 16384,
			DataHeader: wire.CTSDataLen, Rounding: settings.Fill,
			MediumFirst: true, RMANoWait: true, RTRWhole: true, EndsAtPieces: true,
		},
		ShortAddr: true, NoConnID: true, ShortEOR: true, NoHostID: true, NoDeviceVersion: true, CQData32: true, CreditsAsked: true,
		AbortsAhead: true, OneHandshake: true,
	},
	{
		Name: "1.12",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureDeliveryComplete), RecvWindow: 16384,
			DataHeader: wire.CTSDataLen, Rounding: settings.Fill,
			MediumFirst: true, RMANoWait: true, RTRWhole: true, EndsAtPieces: true,
		},
		ShortAddr: true, NoConnID: true, ShortEOR: true, NoHostID: true, NoDeviceVersion: true, CQData32: true, CreditsAsked: true,
		AbortsAhead: true,
	},
	{
		Name: "1.13",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureConstantHeader), RecvWindow: 16384,
			DataHeader: wire.CTSDataLen, Rounding: settings.Fill,
			MediumFirst: true, RMANoWait: true, RTRWhole: true, EndsAtPieces: true,
		},
		NoConnID: true, ShortEOR: true, NoHostID: true, NoDeviceVersion: true, CQData32: true, CreditsAsked: true,
		AbortsAhead: true,
	},
	{
		// Captured: 1.14.1. Assumed: segmentation changed with the runting read, in 1.16.
		Name: "1.14",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureConnIDHeader), RecvWindow: 16384,
			Rounding:  settings.Fill,
			RMANoWait: true, RTRWhole: true,
		},
		NoHostID: true, NoDeviceVersion: true, CQData32: true, CreditsAsked: true,
		AbortsAhead: true,
	},
	{
		Name: "1.16",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureRunt), RecvWindow: 16384,
			Rounding:  settings.RoundUp,
			ReadWaits: true, RMANoWait: true,
		},
		NoHostID: true, NoDeviceVersion: true, CQData32: true,
		AbortsAhead: true,
	},
	{
		Name: "1.17.0",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureRunt), RecvWindow: 16384,
			Rounding:  settings.RoundUp,
			ReadWaits: true, RMANoWait: true,
		},
		NoHostID: true, NoDeviceVersion: true, CQData32: true,
		AbortsAhead: true,
	},
	{
		// Captured: 1.18.2.
		Name: "1.18",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureRDMAWrite), RecvWindow: 16384,
			Rounding:  settings.RoundUp,
			RMANoWait: true, InjectsPackets: true,
		},
		NoDeviceVersion: true,
		AbortsAhead:     true, OneCompareIOV: true,
	},
	{
		// Assumed: what 1.22.0 does otherwise than 1.18.2, but for READ_NACK, began with 1.22.
		Name: "1.20",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureReadNACK), RecvWindow: 16384,
			Rounding:  settings.RoundUp,
			RMANoWait: true, InjectsPackets: true,
		},
		AbortsAhead: true, NoNACKWrite: true, OneCompareIOV: true,
	},
	{
		// Captured: 1.22.0.
		Name: "1.22",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUserRecvQP), RecvWindow: 16384,
		},
		AbortsAhead: true, NoNACKWrite: true, OneCompareIOV: true,
	},
	{
		Name: "2.0",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16384,
		},
		OneCompareIOV: true,
	},
	{
		Name: "2.3.1",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16384,
		},
		OneCompareIOV: true,
	},
	{
		Name: "2.6",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16,
			AlwaysConnID: true,
		},
		OneCompareIOV: true,
	},
	{
		Name: "main",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeaturePeerError), RecvWindow: 16,
			AlwaysConnID: true, DCUnasked: true,
		},
		P2P:           true,
		OneCompareIOV: true,
	},
}

// upTo is the set of features up to last: their ids grew with the releases.
func upTo(last wire.Feature) wire.Features {
	var s wire.Features
	for f := range last + 1 {
		s.Set(f)
	}
	return s
}

// ByName finds a profile of All by its release.
func ByName(name string) (Profile, bool) {
	for i := range All {
		if All[i].Name == name {
			return All[i], true
		}
	}
	return Profile{}, false
}

// Of is the profile of a release as the library says it, such as 1.13.2: that of the
// newest release of All that is not newer.
func Of(release string) (Profile, bool) {
	if p, ok := ByName(release); ok {
		return p, true
	}
	want := numbers(release)
	for i := len(All) - 1; i >= 0; i-- {
		if have := numbers(All[i].Name); have != nil && slices.Compare(have, want) <= 0 {
			return All[i], true
		}
	}
	return Profile{}, false
}

// numbers are those of a release, nil if it has none.
func numbers(release string) (n []int) {
	for part := range strings.SplitSeq(release, ".") {
		v, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		n = append(n, v)
	}
	return n
}
