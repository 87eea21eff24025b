package device

import "fmt"

// Info is what a device can do. A call for something that it does not list is refused
// with ErrNotSupported.
type Info struct {
	Name   string // of the driver and the attachment: "sim", "shm:<dir>"
	GID    GID
	MTU    int    // bytes of the largest packet, headers of the protocol included
	MaxSQ  int    // most outstanding sends of a queue pair
	MaxRQ  int    // most posted receives of a queue pair
	MaxQP  int    // most queue pairs
	MaxMR  int    // most memory regions, of the caller's and of an endpoint's own together
	OwnQPN bool   // it chooses the numbers of queue pairs, and refuses others
	PartID uint32 // vendor part id, sent as device_version in HANDSHAKE (§2.1.1)

	// CopiesAtPost: the bytes of a send are taken before PostSend returns, those that stay
	// (SendWR.Stays) before Doorbell does, so that only a packet that must be sent again needs
	// them later. A Payload that is gathered (Gathers) stays the device's until the completion.
	CopiesAtPost bool

	// MaxPieces is how many local pieces a WRSend may have in all: Header if it is
	// not empty, Payload likewise, and those of SendWR.More. At least 2, which is
	// also what an EFA device takes.
	MaxPieces int
	// MaxRDMAPieces is the same of WRRead and WRWrite: Payload and More. At least 1
	// on a device with RDMA, which is also what an EFA device takes.
	MaxRDMAPieces int

	// RDMARead, RDMAWrite: WRRead and WRWrite work, up to MaxRDMA bytes each.
	RDMARead, RDMAWrite bool
	MaxRDMA             int
	// LocalKeys: the local side of RDMA must lie in a region, named by LKey. Otherwise any
	// memory will do.
	LocalKeys bool
	// SendKeys: so must all pieces of a WRSend, Header among them. EFA has both.
	SendKeys bool
	// Gathers: a device that copies at post takes the Payload of a WRSend that names its
	// region by LKey from its place, behind the Header.
	Gathers bool
	// MinRegister is from how many bytes on it pays to register memory for one operation;
	// 0: never, since the device needs no keys for it.
	MinRegister int
	// UnsolicitedWrite: a WRWrite with immediate takes no posted receive.
	UnsolicitedWrite bool

	// Windows: QP.Lend works. EFA has no memory windows.
	Windows bool
	// Plain: QP.LendPlain works: the device reads the memory of its own process for others.
	Plain bool

	// Pulse: the device completes requests without the other side, whose memory it has
	// before it, so that a completion is no sign that the process there runs: QP.Pulse
	// tells. Otherwise a completion is one, of the device there at least.
	Pulse bool

	// HoldsBack: QP.HoldBack and QP.Shut work. EFA cards know only receives that are posted or not.
	HoldsBack bool

	// Datagram: there are unreliable datagram queue pairs (QPConfig.Type UD).
	Datagram bool
	// DMABuf: RegisterDMABuf works.
	DMABuf bool
	// Foreign: the emulator of an EFA device can be had on this one. RegisterForeign works,
	// and so does SendWR.Whole, by which it says how long a write was that it has cut.
	Foreign bool

	// MaxMedium, MinRead and MinReadWrite are the device's switch points between
	// subprotocols, in bytes; 0 means EFA's own (65536, 1 MiB and 65536).
	MaxMedium, MinRead, MinReadWrite int
}

// Kind is the kind of the device: the small letters that its name begins with. Addresses
// on it have that as their scheme.
func (i *Info) Kind() string { return KindOf(i.Name) }

// KindOf is the kind of a device with a name.
func KindOf(name string) string {
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			return name[:i]
		}
	}
	return name
}

// Check is what every OpenQP does first: it refuses with ErrNotSupported a kind of queue
// pair that i does not list.
func Check(i Info, c QPConfig) error {
	if c.Type > UD || c.Type == UD && !i.Datagram {
		return fmt.Errorf("%w: queue pair of type %d on %s", ErrNotSupported, c.Type, i.Name)
	}
	return nil
}
