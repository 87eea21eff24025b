package efa

import (
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
)

// Remote names memory of another process: a MemoryRegion or a part of one, for its
// peers to read, write and update. It is a small value, and opaque: it holds the
// address and the key of the memory on each device of the domain that it belongs to,
// and an operation uses those of the device that carries to the peer. The zero Remote
// names nothing.
//
// It goes to peers in its binary form (MarshalBinary). The keys in it, drawn at random,
// are all that protects the memory: a process that has them may do to the region what
// its Access allows, and a peer that guesses too often is failed. So a Remote is to be
// kept from strangers; String leaves the keys out, and there is no text form that a
// logger would write.
type Remote struct {
	names  *[]remoteName // by device; never changed
	off, n uint64        // the part: n bytes from off on
}

// remoteName is what one device calls the region.
type remoteName struct {
	gid  device.GID // of the device; zero: it is not known, and any will do
	addr uint64     // of the first byte
	key  uint64     // the device's, and perhaps mr.EmulatedOnly
}

// RawRemote names n bytes at addr by a key that something else than efactor gave, such as
// a libfabric peer's fi_mr_key, whichever device carries to the peer.
func RawRemote(addr, n, key uint64) Remote {
	return Remote{names: &[]remoteName{{addr: addr, key: key}}, n: n}
}

// Raw gives the address and the key on the domain's first device, for a peer that is not
// efactor. The highest bit of key says that the region is reached by emulated operations
// only, which the software of its side carries out; a libfabric takes no notice of it.
func (r Remote) Raw() (addr, key uint64) {
	if r.names == nil {
		return 0, 0
	}
	x := &(*r.names)[0]
	return x.addr + r.off, x.key
}

// remoteOf names a whole region of a fabric's devices.
func (f *Fabric) remoteOf(r *mr.Region) Remote {
	names := make([]remoteName, r.Paths())
	for i := range names {
		names[i] = remoteName{f.paths[i].gid, r.Addr(uint8(i)), r.Key(uint8(i))}
	}
	return Remote{names: &names, n: uint64(len(r.Bytes()))}
}

// Len is the number of bytes that r names.
func (r Remote) Len() uint64 { return r.n }

// Slice is the n bytes from offset off on, or as many of them as there are.
func (r Remote) Slice(off, n uint64) Remote {
	off = min(off, r.n)
	return Remote{names: r.names, off: r.off + off, n: min(n, r.n-off)}
}

// String gives the length, for people; the keys are a secret.
func (r Remote) String() string { return fmt.Sprintf("%d bytes of remote memory", r.n) }

// on gives what the device with a GID calls r, of which n bytes are wanted. Of a peer that
// is not known (zero) it is what any device does, since the operation is refused later.
func (r Remote) on(gid device.GID, n int) (addr, key uint64, err error) {
	if uint64(n) > r.n {
		return 0, 0, fmt.Errorf("%w: %d bytes in %v", ErrInvalid, n, r)
	}
	if r.names == nil {
		return 0, 0, nil
	}
	for i := range *r.names {
		x := &(*r.names)[i]
		if x.gid != gid && x.gid != (device.GID{}) && gid != (device.GID{}) {
			continue
		}
		if x.addr+r.off < x.addr || x.addr+r.off+r.n < x.addr {
			return 0, 0, fmt.Errorf("%w: %v at the end of the address space", ErrInvalid, r)
		}
		return x.addr + r.off, x.key, nil
	}
	return 0, 0, fmt.Errorf("%w: %v is not of the peer's device, %v", ErrInvalid, r, gid)
}

// The binary form, little-endian: version, number of names, 6 zeroes, length; then each
// name: GID, address, key.
const (
	remoteVersion = 1
	remoteHead    = 16
	remoteEach    = 32
	maxRemote     = 8 // names
)

// MaxRemote is the most bytes of a Remote's binary form.
const MaxRemote = remoteHead + maxRemote*remoteEach

// AppendBinary adds the binary form to b: 16 bytes and 32 for each device.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	var names []remoteName
	if r.names != nil {
		names = *r.names
	}
	b = append(b, remoteVersion, byte(len(names)), 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.n)
	for i := range names {
		x := &names[i]
		b = append(b, x.gid[:]...)
		b = binary.LittleEndian.AppendUint64(b, x.addr+r.off)
		b = binary.LittleEndian.AppendUint64(b, x.key)
	}
	return b, nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (r Remote) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It takes what AppendBinary makes,
// and nothing that would reach around the end of the address space or that has two names
// for one device. After an error r is as it was.
func (r *Remote) UnmarshalBinary(b []byte) (err error) {
	defer formed("unmarshal remote", &err)
	if len(b) < remoteHead || b[0] != remoteVersion {
		return fmt.Errorf("%w: Remote of %d bytes is not of version %d", ErrInvalid, len(b), remoteVersion)
	}
	count := int(b[1])
	if count > maxRemote || len(b) != remoteHead+count*remoteEach || [6]byte(b[2:8]) != [6]byte{} {
		return fmt.Errorf("%w: Remote of %d bytes with %d names", ErrInvalid, len(b), count)
	}
	x := Remote{n: binary.LittleEndian.Uint64(b[8:])}
	if count == 0 && x.n > 0 {
		return fmt.Errorf("%w: Remote of %d bytes without a name", ErrInvalid, x.n)
	}
	names := make([]remoteName, count)
	for i := range names {
		e := b[remoteHead+i*remoteEach:]
		y := remoteName{device.GID(e[:16]), binary.LittleEndian.Uint64(e[16:]), binary.LittleEndian.Uint64(e[24:])}
		if y.addr+x.n < y.addr {
			return fmt.Errorf("%w: %v wraps around", ErrInvalid, x)
		}
		for _, o := range names[:i] {
			if o.gid == y.gid {
				return fmt.Errorf("%w: Remote with two names on one device", ErrInvalid)
			}
		}
		names[i] = y
	}
	if count > 0 {
		x.names = &names
	}
	*r = x
	return nil
}
