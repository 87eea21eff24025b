package device

// MR is a memory region. Any goroutine may call its methods.
type MR interface {
	// Bytes is the memory; of a closed region of Alloc it must not be touched. It is
	// nil where this process cannot touch the memory.
	Bytes() []byte
	// Addr is what remote accesses call the first byte: its virtual address,
	// or on a simulated device a number.
	Addr() uint64
	// LKey and RKey name the region in work requests, for the local and the
	// remote side. RKey cannot be guessed: EFA's and shm's have 32 bits, tcp's 62 (the
	// highest two are never set). EFA's LKey has 24 bits; that of a software device is the
	// low half of the RKey.
	LKey() uint32
	RKey() uint64
	// Remote reports whether the device carries RDMA of others to this region.
	// False: only emulated accesses reach it (shm: memory that was registered
	// and not allocated lies in one process alone).
	Remote() bool
	// Parts are the regions of a device over several, one for each of
	// [Device.Devices] in their order: every device names the memory by an address
	// and keys of its own. It is nil of a device that joins none. The methods above
	// then speak of the first part.
	Parts() []MR
	// Close ends remote access: what is under way may end with StatusBadAddress,
	// and afterwards nobody touches the memory, which is given back if it came
	// from Alloc. A second call reports ErrClosed.
	Close() error
}

// Renewer is a region that can be another one once it is closed, so that who registers the
// memory of each message allocates none. Both methods are for who closed the region without an
// error, and knows that nobody else has it.
type Renewer interface {
	MR
	// Clear has the region refer to no memory.
	Clear()
	// Renew registers mem as [Device.Register] does, with the same errors, after which the region
	// stays closed. One that is open, or came from Alloc, it refuses.
	Renew(mem []byte, a Access) error
}

// Access is what a memory region may be used for.
type Access uint8

// Access rights.
const (
	LocalWrite  Access = 1 << iota
	RemoteWrite        // implies LocalWrite
	RemoteRead
	// Message: peers' devices may read messages from it while they are under way. It is for
	// [Access.On], no device's Register knows it.
	Message
)

// On is the access to ask of a device for a: one with windows lends a message (QP.Lend), one
// without has to let others read the region.
func (a Access) On(i *Info) Access {
	if a&Message != 0 && !i.Windows {
		a |= RemoteRead
	}
	return a &^ Message
}

// Part is the region of mr on a path, of those that [QP.Paths] lists.
func Part(mr MR, path uint8) MR {
	if parts := mr.Parts(); parts != nil {
		return parts[path]
	}
	return mr
}

// MRBase is what a driver's memory region embeds: it is one region.
type MRBase struct{}

// Parts implements MR: there are none.
func (MRBase) Parts() []MR { return nil }
