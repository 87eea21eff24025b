package efa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// RawAddr is the 32-byte EFA address of an endpoint on one device: GID, queue
// pair number, connid (§1.4 of the protocol). Comparable.
type RawAddr = wire.RawAddr

// Address is where an endpoint can be reached: one raw address per device that
// it is open on, best first. As text it is a list of URIs joined by semicolons,
// one line, safe in an environment variable or a flag:
//
//	shm://[fe80::11ff:fe00:a01]:4711:1804289383
//
// The zero Address is nowhere.
type Address struct {
	paths []path
}

// path is a raw address on one kind of fabric.
type path struct {
	scheme string // "shm", "sim", "efa"
	raw    RawAddr
}

// NewAddress makes the address of one path. scheme is the kind of device that it
// is on: small letters, as in "shm".
func NewAddress(scheme string, raw RawAddr) Address {
	return Address{[]path{{scheme, raw}}}
}

// IsZero reports whether a is nowhere.
func (a Address) IsZero() bool { return len(a.paths) == 0 }

// Equal reports whether a and b are the same paths in the same order.
func (a Address) Equal(b Address) bool { return slices.Equal(a.paths, b.paths) }

// Raw returns the raw address on the given kind of device.
func (a Address) Raw(scheme string) (RawAddr, bool) {
	for _, p := range a.paths {
		if p.scheme == scheme {
			return p.raw, true
		}
	}
	return RawAddr{}, false
}

const rawScheme = "fi_addr_efa"

// String gives the text form.
func (a Address) String() string {
	var b strings.Builder
	for i, p := range a.paths {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(p.raw.URI(p.scheme))
	}
	return b.String()
}

// MarshalText implements encoding.TextMarshaler; the zero Address is the empty text.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) (err error) {
	defer formed("parse address", &err)
	if len(text) == 0 {
		*a = Address{}
		return nil
	}
	x, err := ParseAddress(string(text))
	if err == nil {
		*a = x
	}
	return err
}

// maxPaths bounds what ParseAddress accepts: there are few kinds of device.
const maxPaths = 16

// ParseAddress reads what String wrote. libfabric's own form, fi_addr_efa://..,
// is the address on an EFA device.
func ParseAddress(s string) (_ Address, err error) {
	defer formed("parse address", &err)
	var a Address
	for uri := range strings.SplitSeq(s, ";") {
		scheme, rest, ok := strings.Cut(uri, "://")
		if len(a.paths) == maxPaths {
			return Address{}, fmt.Errorf("%w: address of more than %d paths", ErrInvalid, maxPaths)
		}
		if !ok || (device.KindOf(scheme) != scheme && scheme != rawScheme) || scheme == "" {
			return Address{}, fmt.Errorf("%w: address %q: want scheme://[gid]:qpn:connid", ErrInvalid, uri)
		}
		raw, err := wire.ParseRawAddr(rawScheme + "://" + rest)
		if err != nil {
			return Address{}, fmt.Errorf("%w: address %q: %w", ErrInvalid, uri, err)
		}
		if scheme == rawScheme {
			scheme = "efa"
		}
		a.paths = append(a.paths, path{scheme, raw})
	}
	return a, nil
}
