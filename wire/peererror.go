package wire

import "strconv"

// Three layouts have stood behind PEER_ERROR, of which the length alone tells.
const (
	PeerErrorLen    = 24 // main since September 2026, and release 2.7
	PeerErrorLen20  = 20 // main of July and August 2026
	PeerErrorLen28  = 28 // main of late August 2026, until September
	peerErrorConnID = 4  // the connid is the last field of each
)

// PeerErrorForm is one of the layouts of PEER_ERROR.
type PeerErrorForm uint8

// The layouts.
const (
	PeerErrorForm24 PeerErrorForm = iota // PeerErrorLen
	PeerErrorForm20                      // PeerErrorLen20
	PeerErrorForm28                      // PeerErrorLen28
)

// peerErrorFits reports whether n bytes are one of the forms.
func peerErrorFits(n int) bool {
	return n == PeerErrorLen || n == PeerErrorLen20 || n == PeerErrorLen28
}

// RefKind is the kind of PeerError.OpID in the form of 20 bytes.
type RefKind uint32

// The kinds of reference.
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

// Emitter is which of the two sides of an operation gives it up, in the forms of 24 and 28 bytes.
type Emitter uint32

// The sides.
const (
	EmitterTX Emitter = 1 // the sender of the data: the message of its msg_id
	EmitterRX Emitter = 2 // its receiver: the message of the other side's msg_id
)

// String names the side as a log shows it.
func (e Emitter) String() string {
	switch e {
	case EmitterTX:
		return "txe"
	case EmitterRX:
		return "rxe"
	default:
		return strconv.FormatUint(uint64(e), 10)
	}
}

// NoOpID is op_id where there is none, in the form of 24 bytes.
const NoOpID = ^uint32(0)

// PeerError aborts an operation. The specification lacks it: it came to
// libfabric after release 2.6, and only a peer that advertises
// FeaturePeerError may be sent one, older releases stop at an unknown type.
//
//	0      4        8       12        16           20       24
//	+------+--------+-------+---------+------------+--------+
//	| base | msg_id | op_id | emitter | prov_errno | connid |
//	+------+--------+-------+---------+------------+--------+
//
// Upstream changed the layout twice before a release had it, under the same type and feature:
//
//	| base | op_id | ref_kind | prov_errno | connid |                               20 bytes
//	| base | msg_id | op_id | op_id_valid | emitter | prov_errno | connid |         28 bytes
//
// Read takes all three. In the form of 20 bytes OpID is what RefKind says, and MsgID and
// Emitter are zero; in the others RefKind is.
type PeerError struct {
	Form      PeerErrorForm
	MsgID     uint32 // of the message
	OpID      uint32 // an id of the receiver of PEER_ERROR, NoOpID: none
	RefKind   RefKind
	Emitter   Emitter
	ProvErrno uint32 // the cause, for people
	HasConnID bool
	ConnID    uint32 // if HasConnID, else padding
}

// Type is PEER_ERROR.
func (p *PeerError) Type() Type { return TypePeerError }

// Append adds the packet to b.
func (p *PeerError) Append(b []byte) []byte {
	b = appendBase(b, TypePeerError, connIDFlag(p.HasConnID))
	switch p.Form {
	case PeerErrorForm20:
		b = le.AppendUint32(b, p.OpID)
		b = le.AppendUint32(b, uint32(p.RefKind))
	case PeerErrorForm28:
		id, valid := p.opID()
		b = le.AppendUint32(b, p.MsgID)
		b = le.AppendUint32(b, id)
		b = le.AppendUint32(b, valid)
		b = le.AppendUint32(b, uint32(p.Emitter))
	default:
		b = le.AppendUint32(b, p.MsgID)
		b = le.AppendUint32(b, p.OpID)
		b = le.AppendUint32(b, uint32(p.Emitter))
	}
	b = le.AppendUint32(b, p.ProvErrno)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *PeerError) Read(v *View) (n int, err error) {
	if n, err = v.header(famPeerError); err != nil {
		return 0, err
	}
	b, q := v.b, PeerError{HasConnID: v.hasConnID, ConnID: v.connID}
	switch n {
	case PeerErrorLen20:
		q.Form, q.OpID, q.RefKind = PeerErrorForm20, le.Uint32(b[4:]), RefKind(le.Uint32(b[8:]))
	case PeerErrorLen28:
		q.Form, q.MsgID, q.OpID = PeerErrorForm28, le.Uint32(b[4:]), le.Uint32(b[8:])
		if le.Uint32(b[12:]) == 0 { // op_id_valid
			q.OpID = NoOpID
		}
		q.Emitter = Emitter(le.Uint32(b[16:]))
	default:
		q.MsgID, q.OpID, q.Emitter = le.Uint32(b[4:]), le.Uint32(b[8:]), Emitter(le.Uint32(b[12:]))
	}
	q.ProvErrno = le.Uint32(b[n-2*peerErrorConnID:])
	*p = q
	return n, nil
}

// opID is op_id and op_id_valid of the form of 28 bytes.
func (p *PeerError) opID() (id, valid uint32) {
	if p.OpID == NoOpID {
		return 0, 0
	}
	return p.OpID, 1
}
