package wire

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// RawAddrLen is the size of a raw address.
const RawAddrLen = 32

// RawAddr is the raw address of an EFA RDM endpoint (§1.4, Table 1.5).
//
//	0         16    18    20       24         32
//	+---------+-----+-----+--------+----------+
//	|   gid   | qpn | pad | connid | reserved |
//	+---------+-----+-----+--------+----------+
//
// The GID is in network order, the rest little-endian. The connid, called qkey
// in libfabric, is also the Q_Key of the queue pair. reserved is a host pointer
// in libfabric's memory and must be zero on the wire: peers key their address
// vectors with all 32 bytes.
type RawAddr [RawAddrLen]byte

// MakeRawAddr makes a raw address with pad and reserved zero.
func MakeRawAddr(gid [16]byte, qpn uint16, connid uint32) RawAddr {
	var r RawAddr
	copy(r[:], gid[:])
	le.PutUint16(r[16:], qpn)
	le.PutUint32(r[rawAddrConnIDAt:], connid)
	return r
}

// rawAddrConnIDAt is where the connid lies.
const rawAddrConnIDAt = 20

// GID is the address of the device's port, in network order.
func (r RawAddr) GID() [16]byte { return [16]byte(r[:16]) }

// QPN is the queue pair number.
func (r RawAddr) QPN() uint16 { return le.Uint16(r[16:]) }

// ConnID is the connection ID, which tells an endpoint from an earlier one that
// had the same queue pair number (§4.4).
func (r RawAddr) ConnID() uint32 { return le.Uint32(r[rawAddrConnIDAt:]) }

const (
	rawScheme     = "fi_addr_efa"
	rawAddrScheme = rawScheme + "://["
)

// String returns libfabric's text form, fi_addr_efa://[gid]:qpn:connid. It leaves
// out pad and reserved.
func (r RawAddr) String() string { return r.URI(rawScheme) }

// URI is the same with another scheme: the kind of a device, as efa.Address has it.
func (r RawAddr) URI(scheme string) string {
	b := append(make([]byte, 0, 80), scheme...)
	b = append(b, "://["...)
	b = netip.AddrFrom16(r.GID()).AppendTo(b)
	b = append(b, "]:"...)
	b = strconv.AppendUint(b, uint64(r.QPN()), 10)
	b = append(b, ':')
	b = strconv.AppendUint(b, uint64(r.ConnID()), 10)
	return string(b)
}

// ParseRawAddr reads what String writes.
func ParseRawAddr(s string) (RawAddr, error) {
	rest, ok := strings.CutPrefix(s, rawAddrScheme)
	if !ok {
		return RawAddr{}, fmt.Errorf("wire: %w: %q does not start with %s", ErrAddr, s, rawAddrScheme)
	}
	host, ports, ok := strings.Cut(rest, "]:")
	if !ok {
		return RawAddr{}, fmt.Errorf("wire: %w: %q has no ]: after the GID", ErrAddr, s)
	}
	qpnText, connidText, ok := strings.Cut(ports, ":")
	if !ok {
		return RawAddr{}, fmt.Errorf("wire: %w: %q has no connid", ErrAddr, s)
	}
	gid, err := netip.ParseAddr(host)
	if err != nil || !gid.Is6() || gid.Zone() != "" {
		return RawAddr{}, fmt.Errorf("wire: %w: GID of %q is not a plain IPv6 address", ErrAddr, s)
	}
	qpn, err := strconv.ParseUint(qpnText, 10, 16)
	if err != nil {
		return RawAddr{}, fmt.Errorf("wire: %w: queue pair number of %q: %w", ErrAddr, s, err)
	}
	connid, err := strconv.ParseUint(connidText, 10, 32)
	if err != nil {
		return RawAddr{}, fmt.Errorf("wire: %w: connid of %q: %w", ErrAddr, s, err)
	}
	return MakeRawAddr(gid.As16(), uint16(qpn), uint32(connid)), nil
}
