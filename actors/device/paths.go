package device

// Keyed is what a [Device] may offer beside its methods, so that one region can be
// reached over several devices by one key.
type Keyed interface {
	// RegisterKeyed is Register for a region that another device has already
	// named: remote accesses call its first byte addr, and key is both of its keys.
	// ErrKeyInUse: another region here has the key.
	RegisterKeyed(mem []byte, a Access, addr uint64, key uint32) (MR, error)
}

// Reacher is what a [Device] may offer beside its methods: to say, without asking
// the other side, whether a GID can be one that it carries to. Who has several
// devices chooses among them by this.
type Reacher interface {
	Reaches(gid GID) bool
}

// Path is one of the ways that a queue pair over several devices has.
type Path struct {
	Info Info // of the device: its MaxRDMA and switch points hold on the path
	QPN  uint16
}

// Pather is what a [QP] over several devices offers beside its methods. Its own QPN is
// that of its first path.
type Pather interface {
	// Paths are those of the queue pair, best first; always the same slice.
	Paths() []Path
	// PathOf is the index of the path that an address handle belongs to.
	PathOf(ah AH) int
}
