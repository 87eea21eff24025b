package wire

import "strconv"

// PeerErrorLen is the size of a PEER_ERROR packet.
const PeerErrorLen = 20

// RefKind is the kind of PeerError.OpID.
type RefKind uint32

// The kinds of reference in a PEER_ERROR.
const (
	RefOpe       RefKind = iota // the id of an operation of the receiver of PEER_ERROR
	RefMsgID                    // the msg_id of a message that has been sent in part
	RefMsgIDSkip                // a msg_id that may never have been seen: pass over it
)

// String names the kind as a log shows it.
func (k RefKind) String() string {
	switch k {
	case RefOpe:
		return "ope"
	case RefMsgID:
		return "msg_id"
	case RefMsgIDSkip:
		return "msg_id_skip"
	default:
		return strconv.FormatUint(uint64(k), 10)
	}
}

// PeerError aborts an operation. The specification lacks it: it came to
// libfabric after release 2.6, and only a peer that advertises
// FeaturePeerError may be sent one, older releases stop at an unknown type.
//
//	0      4       8          12           16         20
//	+------+-------+----------+------------+----------+
//	| base | op_id | ref_kind | prov_errno | multiuse |
//	+------+-------+----------+------------+----------+
type PeerError struct {
	OpID      uint32 // what RefKind says
	RefKind   RefKind
	ProvErrno uint32 // the cause, for people
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
}

// Type is PEER_ERROR.
func (p *PeerError) Type() Type { return TypePeerError }

// Len is the number of bytes that Append adds.
func (p *PeerError) Len() int { return PeerErrorLen }

// Append adds the packet to b.
func (p *PeerError) Append(b []byte) []byte {
	b = appendBase(b, TypePeerError, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.OpID)
	b = le.AppendUint32(b, uint32(p.RefKind))
	b = le.AppendUint32(b, p.ProvErrno)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Parse reads the packet at the start of b.
func (p *PeerError) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *PeerError) Read(v *View) (n int, err error) {
	if n, err = v.header(famPeerError); err != nil {
		return 0, err
	}
	b := v.b
	*p = PeerError{
		OpID:      le.Uint32(b[4:]),
		RefKind:   RefKind(le.Uint32(b[8:])),
		ProvErrno: le.Uint32(b[12:]),
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
	}
	return n, nil
}

func (p *PeerError) fields(l *line) {
	l.uint("op_id", uint64(p.OpID))
	l.text("ref_kind", p.RefKind.String())
	l.uint("prov_errno", uint64(p.ProvErrno))
	l.connID(p.HasConnID, p.ConnID)
}
