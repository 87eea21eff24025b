package ctrl

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/efactor/efactor/api/efa"
)

// Format is the format of an address: libfabric's enum in fi_fabric.h, of which
// these two matter here.
type Format uint32

// The formats.
const (
	FormatString Format = 9  // FI_ADDR_STR: text, as the shm provider has
	FormatEFA    Format = 12 // FI_ADDR_EFA: a raw address of 32 bytes
)

// String returns libfabric's name.
func (f Format) String() string {
	switch f {
	case FormatString:
		return "FI_ADDR_STR"
	case FormatEFA:
		return "FI_ADDR_EFA"
	default:
		return fmt.Sprintf("address format %d", uint32(f))
	}
}

// Name is the name of an endpoint.
type Name struct {
	Format Format
	Addr   []byte
}

// nameOf makes the name of an endpoint with a raw EFA address.
func nameOf(raw efa.RawAddr) Name { return Name{Format: FormatEFA, Addr: raw[:]} }

// Raw is the raw EFA address in n.
func (n Name) Raw() (efa.RawAddr, error) {
	switch {
	case n.Format == FormatString:
		return efa.RawAddr{}, fmt.Errorf("%w: its endpoint is %q, not on an EFA fabric; start it with -p efa -e rdm",
			ErrProtocol, strings.TrimRight(string(n.Addr), "\x00"))
	case n.Format != FormatEFA:
		return efa.RawAddr{}, fmt.Errorf("%w: its endpoint has an %v, want %v", ErrProtocol, n.Format, FormatEFA)
	case len(n.Addr) != len(efa.RawAddr{}):
		return efa.RawAddr{}, fmt.Errorf("%w: a raw address of %d bytes, want %d", ErrProtocol, len(n.Addr), len(efa.RawAddr{}))
	}
	return efa.RawAddr(n.Addr), nil
}

// maxName is the longest name taken; the longest of libfabric's are URLs.
const maxName = 1024

// append adds n as it is on the wire.
func (n Name) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(n.Addr)))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Format))
	return append(b, n.Addr...)
}

// Meet sends our raw address to the partner and returns the partner's.
func (c *Conn) Meet(ctx context.Context, own efa.RawAddr) (efa.RawAddr, error) {
	n, err := c.Exchange(ctx, nameOf(own))
	if err != nil {
		return efa.RawAddr{}, err
	}
	raw, err := n.Raw()
	if err != nil {
		return raw, fmt.Errorf("name of the partner: %w", err)
	}
	return raw, nil
}

// Exchange swaps names, the server's first.
func (c *Conn) Exchange(ctx context.Context, own Name) (Name, error) {
	var theirs Name
	err := c.step(ctx, "exchange of names", func() (err error) {
		if c.server {
			if err := c.write(own.append(nil)); err != nil {
				return err
			}
			theirs, err = c.readName()
			return err
		}
		if theirs, err = c.readName(); err != nil {
			return err
		}
		return c.write(own.append(nil))
	})
	return theirs, err
}

func (c *Conn) readName() (Name, error) {
	var head [8]byte
	if err := c.read(head[:]); err != nil {
		return Name{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || size > maxName {
		return Name{}, fmt.Errorf("%w: a name of %d bytes, want 1 to %d", ErrProtocol, size, maxName)
	}
	n := Name{Format: Format(binary.LittleEndian.Uint32(head[4:])), Addr: make([]byte, size)}
	return n, c.read(n.Addr)
}
