package efa

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/mr"
)

// MaxKey is the highest key of an [Export].
const MaxKey = 1<<62 - 1

// Export is a part of a memory region under a key of its own, in which peers count bytes from
// 0 on (FI_MR_PROV_KEY and FI_MR_VIRT_ADDR switched off, and sub-regions).
type Export struct {
	// Key is what peers call it, at most MaxKey. Programs that agree on keys need not
	// exchange any, see [KeyRemote]; but then the memory is open to all who know the number, and the
	// Export must come before the first access: a peer that names keys which are none is failed
	// after some.
	// 0: a key is drawn that nobody can guess.
	Key uint64
	// Off and Len are the bytes of the region; Len 0 means all from Off on.
	Off, Len int
	// Access is what peers may do: AccessRemoteRead and AccessRemoteWrite, which the region
	// must have, too.
	Access Access
}

// Export lets peers use a part of the region by a key of its own, until Unexport or Close of the
// region. On each device such memory is reached by emulated operations, which copy once more
// than RDMA, since devices draw the keys of RDMA themselves.
//
// ErrInvalid: the part is not in the region, or the rights are not its own. ErrNoKey: another
// export of the domain has that key. ErrNoMR: the domain has 4,096 of them. ErrClosed.
func (m *MemoryRegion) Export(x Export) (_ Remote, err error) {
	defer formed("export", &err)
	if x.Len == 0 && x.Off < len(m.mem) {
		x.Len = len(m.mem) - x.Off
	}
	switch remote := AccessRemoteRead | AccessRemoteWrite; {
	case x.Off < 0 || x.Len <= 0 || x.Off > len(m.mem)-x.Len:
		return Remote{}, fmt.Errorf("%w: %d bytes from %d on, in a region of %d", ErrInvalid, x.Len, x.Off, len(m.mem))
	case x.Access == 0 || x.Access&^remote != 0 || x.Access&^m.access != 0:
		return Remote{}, fmt.Errorf("%w: access %v of a region with %v", ErrInvalid, x.Access, m.access)
	case x.Key > MaxKey:
		return Remote{}, fmt.Errorf("%w: key %#x is above MaxKey", ErrInvalid, x.Key)
	}
	_, table := x.Access.rights(m.dom.fab.dev)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != regionOpen {
		return Remote{}, fmt.Errorf("%w: a closed region", ErrClosed)
	}
	key, part := x.Key, m.mem[x.Off:x.Off+x.Len]
	for {
		if x.Key == 0 {
			key = anyKey()
		}
		switch err := m.dom.regions.Export(m.region, part, key, table); {
		case err == nil:
			return KeyRemote(key, uint64(x.Len)), nil
		case errors.Is(err, mr.ErrManyExport):
			return Remote{}, fmt.Errorf("%w: %w", ErrNoMR, err)
		case x.Key != 0:
			return Remote{}, fmt.Errorf("%w: %#x: %w", ErrNoKey, key, err)
		}
	}
}

// Unexport ends an export of the region, of which r was returned: its key is free, and what a
// peer asks for by it from now on is refused. Operations that have begun go on. ErrNoKey: there
// is no such export.
func (m *MemoryRegion) Unexport(r Remote) (err error) {
	defer formed("unexport", &err)
	if addr, key := r.Raw(); addr&mr.ByOffset != 0 && m.dom.regions.Unexport(m.region, key) {
		return nil
	}
	return fmt.Errorf("%w: no export of the region has it", ErrNoKey)
}

// KeyRemote names n bytes of a peer's [Export] by its key, from byte 0 of it on. Slice gives
// parts of it. Nothing is looked up: an access with a key that the peer does not have, or beyond
// the bytes of the export, is refused there, as with any other Remote.
func KeyRemote(key, n uint64) Remote {
	return Remote{names: &[]remoteName{{addr: mr.ByOffset, key: key&MaxKey | mr.EmulatedOnly}}, n: n}
}

// anyKey is a key that nobody can guess, not 0.
func anyKey() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])%MaxKey + 1
}
