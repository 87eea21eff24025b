package wire

import "strconv"

// Feature is the ID of an extra feature or extra request (§2.1, Table 2.1).
type Feature uint

// Extra features and requests, in the order of Table 2.1 (§2.1). The table ends
// at 6; the others come from libfabric's header. IDs never change.
const (
	FeatureRDMARead         Feature = 0 // §4.1, since 1.10
	FeatureDeliveryComplete Feature = 1 // §4.2, since 1.12
	FeatureConstantHeader   Feature = 2 // §4.3, request, 1.13 to 1.21: raw address in every REQ packet
	FeatureConnIDHeader     Feature = 3 // §4.4, request, since 1.14: connid in REQ packets and CTSDATA
	FeatureRunt             Feature = 4 // §4.5, since 1.16
	FeatureRDMAWrite        Feature = 5 // §4.6, since 1.18
	FeatureReadNACK         Feature = 6 // §4.7, since 1.20
	FeatureUserRecvQP       Feature = 7 // request, 1.22 to 2.5: headerless data at another queue pair
	FeatureUnsolicitedWrite Feature = 8 // since 1.22: a write with immediate takes no posted receive
	FeaturePeerError        Feature = 9 // after 2.6: understands PEER_ERROR
)

var featureNames = [...]string{
	FeatureRDMARead:         "rdma_read",
	FeatureDeliveryComplete: "delivery_complete",
	FeatureConstantHeader:   "constant_header",
	FeatureConnIDHeader:     "connid_header",
	FeatureRunt:             "runt",
	FeatureRDMAWrite:        "rdma_write",
	FeatureReadNACK:         "read_nack",
	FeatureUserRecvQP:       "user_recv_qp",
	FeatureUnsolicitedWrite: "unsolicited_write",
	FeaturePeerError:        "peer_error",
}

// String returns a short name, or the number of a feature without one.
func (f Feature) String() string {
	if f < Feature(len(featureNames)) {
		return featureNames[f]
	}
	return strconv.FormatUint(uint64(f), 10)
}

// maxExtraInfo is the number of words of extra_info that Features holds. One is
// in use after fifteen releases.
const maxExtraInfo = 4

// Features is HANDSHAKE's extra_info (§2.1, Table 2.2): the bit i%64 of word
// i/64 stands for the extra feature or request of ID i.
type Features [maxExtraInfo]uint64

// MakeFeatures makes a set of fs.
func MakeFeatures(fs ...Feature) Features {
	var s Features
	for _, f := range fs {
		s.Set(f)
	}
	return s
}

// Has reports whether f is in the set. It is false for an ID of 256 and above.
func (s Features) Has(f Feature) bool {
	return f < maxExtraInfo*64 && s[f/64]&(1<<(f%64)) != 0
}

// List returns the features of the set, in the order of the IDs.
func (s Features) List() (fs []Feature) {
	for f := range Feature(maxExtraInfo * 64) {
		if s.Has(f) {
			fs = append(fs, f)
		}
	}
	return fs
}

// Set adds f.
//
// Preconditions: f < 256.
func (s *Features) Set(f Feature) { s[f/64] |= 1 << (f % 64) }

// Clear takes f out.
//
// Preconditions: f < 256.
func (s *Features) Clear(f Feature) { s[f/64] &^= 1 << (f % 64) }

// words is the number of words that hold all set bits, at least one: that is
// what every release sends.
func (s Features) words() int {
	n := maxExtraInfo
	for n > 1 && s[n-1] == 0 {
		n--
	}
	return n
}
