package efa

import (
	"encoding/binary"
	"fmt"
)

// Remote names memory of another process: a MemoryRegion or a part of one, for its
// peers to read, write and update. It goes to them as 24 bytes (MarshalBinary).
//
// The low 32 bits of Key, drawn at random, are all that protects the memory: who
// has them and an address may do to the region what its Access allows, and a peer
// that guesses too often is failed. So a Remote is to be kept from strangers, and
// String leaves the key out.
//
// The highest bit of Key says that the region is reached by emulated operations
// only, which the software of its side carries out: its device has no RDMA, or
// none to memory of that kind. A libfabric takes no notice of it.
type Remote struct {
	Addr uint64 // of the first byte, as the other side counts
	Len  uint64 // bytes
	Key  uint64 // of the region
}

// remoteLen is the size of a Remote's binary form: three little-endian words.
const remoteLen = 24

// AppendBinary adds the binary form to b: Addr, Len and Key, little-endian.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, r.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.Len)
	return binary.LittleEndian.AppendUint64(b, r.Key), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (r Remote) MarshalBinary() ([]byte, error) { return r.AppendBinary(make([]byte, 0, remoteLen)) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It takes 24 bytes, and
// nothing that would reach around the end of the address space.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) != remoteLen {
		return fmt.Errorf("%w: Remote of %d bytes, want %d", ErrInvalid, len(b), remoteLen)
	}
	x := Remote{
		Addr: binary.LittleEndian.Uint64(b), Len: binary.LittleEndian.Uint64(b[8:]),
		Key: binary.LittleEndian.Uint64(b[16:]),
	}
	if x.Addr+x.Len < x.Addr {
		return fmt.Errorf("%w: Remote of %d bytes at %#x", ErrInvalid, x.Len, x.Addr)
	}
	*r = x
	return nil
}

// String gives length and address, for people; the key is a secret.
func (r Remote) String() string { return fmt.Sprintf("%d bytes at %#x", r.Len, r.Addr) }

// Slice is the n bytes from offset off on, or as many of them as there are.
func (r Remote) Slice(off, n uint64) Remote {
	off = min(off, r.Len)
	return Remote{Addr: r.Addr + off, Len: min(n, r.Len-off), Key: r.Key}
}
