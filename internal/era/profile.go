package era

import "github.com/efactor/efactor/actors/settings"

// Profile is how an endpoint of a release behaves, and which packets it fails on.
// The zero value is this project's own behaviour, which is libfabric 2.3's.
type Profile struct {
	Name string

	// Habits are what the endpoint goes by.
	settings.Habits

	// Packets that differ in their bytes alone. The endpoint does not know of it: eratest.Device
	// rewrites them.

	ShortAddr       bool // raw address headers are 36 bytes, not 40 (until 1.12)
	NoConnID        bool // packets that are no requests carry no connid (until 1.13)
	ShortEOR        bool // EOR is 12 bytes (until 1.13)
	NoHostID        bool // HANDSHAKE has no host_id (until 1.17)
	NoDeviceVersion bool // HANDSHAKE has no device_version (until 1.19)
	P2P             bool // HANDSHAKE says whether the device reaches memory (p2p; after 2.6.0)
	CQData32        bool // tagged messages carry 32 bits of CQ data (until 1.17)
	WriteData32     bool // emulated writes carry 32 bits of CQ data, as the device's do (since 2.2)
	// CreditsAsked: a request asks for a window of as many packets as its message
	// needs, though the granter gives its own (1.10 to 1.15).
	CreditsAsked bool

	// Packets that it fails on; eratest.Judge looks for them.

	AbortsAhead   bool // a message beyond RecvWindow ends the process (until 1.22)
	OneHandshake  bool // a second HANDSHAKE of a peer ends the process (1.10)
	NoNACKWrite   bool // READ_NACK answers messages, not writes (1.20 and 1.22)
	OneCompareIOV bool // a COMPARE_RTA of several rma_iov gets wrong answers (since 1.18)
}
