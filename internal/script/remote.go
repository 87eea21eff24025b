package script

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

// Remote is an endpoint on the other side: an address. The packets that it received
// so far are in Rig.Sent.
type Remote struct {
	Name   string
	Addr   wire.RawAddr
	Handle uint64 // in the address vector, if Listed
	Listed bool
}

// NewRemote makes an address on the host with the given number.
func NewRemote(name string, host byte, qpn uint16, connid uint32) *Remote {
	return &Remote{Name: name, Addr: wire.MakeRawAddr(GID(host), qpn, connid)}
}

// Book is the address vector of the endpoint under test: handles by order of
// insertion.
type Book struct {
	addrs []wire.RawAddr
	names map[uint64]string
}

// SetName gives a handle a name.
func (b *Book) SetName(handle uint64, name string) {
	if b.names == nil {
		b.names = map[uint64]string{}
	}
	b.names[handle] = name
}

// Address implements endpoint.AddressBook.
func (b *Book) Address(handle uint64) (wire.RawAddr, error) {
	if handle >= uint64(len(b.addrs)) || b.addrs[handle] == (wire.RawAddr{}) {
		return wire.RawAddr{}, fmt.Errorf("%w: no peer has the handle %d", errno.ErrInvalid, handle)
	}
	return b.addrs[handle], nil
}

// Handle implements endpoint.AddressBook.
func (b *Book) Handle(addr wire.RawAddr) (uint64, bool) {
	for h, a := range b.addrs {
		if a == addr {
			return uint64(h), true
		}
	}
	return 0, false
}

// Name implements endpoint.AddressBook.
func (b *Book) Name(handle uint64) string { return b.names[handle] }

// Age implements endpoint.AddressBook.
func (b *Book) Age(handle uint64) uint64 {
	if _, err := b.Address(handle); err != nil {
		return 0
	}
	return handle + 1
}

// Now implements endpoint.AddressBook.
func (b *Book) Now() uint64 { return uint64(len(b.addrs)) }

func (b *Book) insert(addr wire.RawAddr) uint64 {
	b.addrs = append(b.addrs, addr)
	return uint64(len(b.addrs) - 1)
}

func (b *Book) remove(handle uint64) { b.addrs[handle] = wire.RawAddr{} }

// Pattern fills a buffer with the bytes of a message: byte i is (i+seed) % 251.
func Pattern(n, seed int) []byte {
	b := make([]byte, n)
	Fill(b, 0, seed)
	return b
}

// Fill is Pattern for the part of a message that begins at off.
func Fill(b []byte, off, seed int) {
	for i := range b {
		b[i] = byte((off + i + seed) % 251)
	}
}

// Seed finds the seed of a part of a message; false if it isn't of the pattern.
func Seed(b []byte, off int) (seed int, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	seed = ((int(b[0])-off)%251 + 251) % 251
	for i := range b {
		if int(b[i]) != (off+i+seed)%251 {
			return seed, false
		}
	}
	return seed, true
}
