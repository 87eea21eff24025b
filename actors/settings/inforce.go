package settings

import (
	"cmp"
	"math"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// InForce is what an endpoint goes by: the settings, and what no program sets.
type InForce struct {
	Settings
	Knobs // of Settings; a Rounding of 0 is what the habits have

	Features wire.Features // what HANDSHAKE advertises (§2.1)
	DeviceID uint32        // device_version in HANDSHAKE; 0: the device's
	MaxOps   int           // most operations of one kind; 0: ope.MaxOps

	// Order is what operations wait for, those with ope.Ordered alone.
	Order Order
	// Unordered: messages that come are handled as they come.
	Unordered bool

	Requests int // places in the request ring; 0: 2048

	// ReadCredits is Credits for the first window of a read.
	ReadCredits int
}

// New returns what s comes to on a device, before the defaults.
func New(s Settings, i *device.Info) InForce {
	return InForce{Settings: s, Knobs: s.knobs, Features: Features(&s, i)}
}

// On returns f with the defaults for a device filled in, and within its limits.
func (f InForce) On(i *device.Info) InForce {
	def(&f.SendQueue, 256, i.MaxSQ)
	def(&f.RecvQueue, 256, i.MaxRQ)
	def(&f.Refill, max(min(8, f.RecvQueue/2), 1), 0)
	def(&f.MaxMedium, cmp.Or(i.MaxMedium, 65536), 0)
	def(&f.MinRead, cmp.Or(i.MinRead, 1<<20), 0)
	def(&f.MinReadWrite, cmp.Or(i.MinReadWrite, 65536), 0)
	def(&f.ReadSegment, 1<<30, 0)
	if def(&f.MinRegister, i.MinRegister, 0); i.MinRegister == 0 {
		f.MinRegister = -1
	}
	if def(&f.MaxCopy, 4096, 0); f.MaxCopy < 0 || !i.Gathers {
		f.MaxCopy = math.MaxInt
	}
	f.ReadSegment = min(f.ReadSegment, i.MaxRDMA) // of the devices at hand one may do less than the first
	def(&f.Credits, 32, 0)
	f.ReadCredits = f.Credits
	def(&f.RecvWindow, cmp.Or(f.Habits.RecvWindow, 16), 0)
	def(&f.RNRRetry, 3, 0)
	def(&f.PeerTimeout, 10*time.Second, 0)
	def(&f.RNRMax, time.Second, f.PeerTimeout/timely)
	def(&f.ProbeAfter, time.Second, f.PeerTimeout/timely)
	f.RNRInitial = min(f.RNRInitial, f.RNRMax)
	def(&f.PeerMemory, 256<<20, 0)
	def(&f.TotalMemory, 1<<30, 0)
	def(&f.DetachLimit, 1<<20, 0)
	def(&f.Requests, 2048, 0)
	def(&f.MaxUnlistedPeers, 4096, 0)
	if f.DeviceID == 0 {
		f.DeviceID = i.PartID
	}
	f.Features = f.Habits.Knows(f.Features)
	f.adopt(&f.Habits, i.MTU)
	return f
}

// timely is the part of PeerTimeout within which a peer is asked at the latest for a sign of life, so that it has
// the rest to give one: a silent peer is probed by then, and one in back-off, which is not probed, is tried again.
const timely = 4

// adopt has the switch points be as another release's habits make them.
func (f *InForce) adopt(h *Habits, mtu int) {
	if f.Rounding == 0 {
		f.Rounding = h.Rounding
	}
	if h.MediumFirst && f.MinRead > 0 {
		f.MinRead = max(f.MinRead, f.MaxMedium+1, mtu)
	}
	if h.RTRWhole {
		f.ReadCredits = MaxReadCredits
	}
}

// Limits of settings that no device sets.
const (
	// MaxCredits keeps a window, in bytes, far from the end of 64 bits.
	MaxCredits = 1 << 20
	// MaxReadCredits makes the first window of a read as large as its packet can say.
	MaxReadCredits = 1 << 23
	// MaxUnlistedPeers keeps multiples of it in an int.
	MaxUnlistedPeers = 1 << 24
	// MaxRecvWindow bounds the ring that a peer ahead of its turn can make us keep;
	// libfabric's largest is 16384.
	MaxRecvWindow = 1 << 20
	// MaxMemory is more memory than there is, small enough to reckon with.
	MaxMemory = 1 << 60
)

// def gives v its default, and, if most is not 0, makes it at most that: a default of ours
// yields to the device, and what a program asked for was checked against the limit before.
func def[T int | int64 | time.Duration](v *T, to, most T) {
	if *v == 0 {
		*v = to
	}
	if most > 0 {
		*v = min(*v, most)
	}
}

// Hard is the most bytes of all unexpected messages, but for what is under way: what is let in
// slowly above TotalMemory, since one of those messages may be what the application waits for,
// ends there.
func (f *InForce) Hard() int64 { return f.TotalMemory + max(f.TotalMemory/4, 64<<20) }

// Retries is RNRRetry as the device takes it.
func (f *InForce) Retries() uint8 { return uint8(max(f.RNRRetry, 0)) }

// Features is what HANDSHAKE tells peers that an endpoint with the settings can do on a
// device (§2.1): the protocol's own always, RDMA as the device has it.
func Features(s *Settings, i *device.Info) wire.Features {
	f := wire.MakeFeatures(wire.FeatureConnIDHeader, wire.FeatureDeliveryComplete, wire.FeatureRunt, wire.FeatureReadNACK)
	if i.Kind() != "efa" || s.AnnounceAborts {
		f.Set(wire.FeaturePeerError)
	}
	if i.RDMARead && !s.NoRDMARead {
		f.Set(wire.FeatureRDMARead)
	}
	if i.RDMAWrite && !s.NoRDMAWrite {
		f.Set(wire.FeatureRDMAWrite)
	}
	if i.UnsolicitedWrite && !s.NoRDMAWrite {
		f.Set(wire.FeatureUnsolicitedWrite)
	}
	return f
}
