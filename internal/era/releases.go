package era

import (
	"slices"
	"strconv"
	"strings"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// All holds the releases at which something on the wire changed, oldest first, and
// those that were captured. Each stands for the releases up to the next one. "main" and "main28"
// are libfabric between 2.6 and 2.7.
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
			Rounding:    settings.Fill,
			MediumFirst: true, RMANoWait: true, RTRWhole: true,
		},
		NoHostID: true, NoDeviceVersion: true, CQData32: true, CreditsAsked: true,
		AbortsAhead: true,
	},
	{
		Name: "1.16",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureRunt), RecvWindow: 16384,
			Rounding:    settings.RoundUp,
			MediumFirst: true, ReadWaits: true, RMANoWait: true,
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
		Name: "2.2",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16384,
		},
		WriteData32: true, OneCompareIOV: true,
	},
	{
		Name: "2.3.1",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16384,
		},
		WriteData32: true, OneCompareIOV: true,
	},
	{
		// Captured: 2.6.0. Its branch got the p2p word of HANDSHAKE later.
		Name: "2.6",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeatureUnsolicitedWrite), RecvWindow: 16,
			AlwaysConnID: true, Unasked: true,
		},
		WriteData32: true, OneCompareIOV: true,
	},
	{
		// Captured: main of August 2026, with the first PEER_ERROR.
		Name: "main",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeaturePeerError), RecvWindow: 16,
			AlwaysConnID: true, Unasked: true, PeerErrors: wire.PeerErrorForm20,
		},
		P2P: true, WriteData32: true, OneCompareIOV: true,
	},
	{
		// Captured: main as of pull request 12730.
		Name: "main28",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeaturePeerError), RecvWindow: 16,
			AlwaysConnID: true, Unasked: true, PeerErrors: wire.PeerErrorForm28,
		},
		P2P: true, WriteData32: true, OneCompareIOV: true,
	},
	{
		// Captured: a build that stands in for 2.7.0. Pull request 12762 says what that changes.
		Name: "2.7",
		Habits: settings.Habits{
			Limited: true, Features: upTo(wire.FeaturePeerError), RecvWindow: 16,
			AlwaysConnID: true, Unasked: true, PeerErrors: wire.PeerErrorForm24,
		},
		P2P: true, WriteData32: true, OneCompareIOV: true,
	},
}

// builds are captured ones that are no releases, and the profiles that they have.
var builds = map[string]string{"f71b950ce": "main28", "like27": "2.7"}

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

// Of is the profile of a release as the library or a capture says it, such as 1.13.2: that of the
// newest release of All that is not newer.
func Of(release string) (Profile, bool) {
	if name, ok := builds[release]; ok {
		release = name
	}
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
