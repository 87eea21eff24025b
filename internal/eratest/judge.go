package eratest

import (
	"errors"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

// Judge follows an endpoint of an era by the packets that it receives and sends. Take
// reports a packet on which the endpoint would end its process, raise an error event,
// take headers for data, or wait for ever. An endpoint without such a report cannot
// tell its peer, this project, from one of its own era.
//
// A Judge knows packets alone: it does not see RDMA and datagrams without headers.
// A packet that is posted again after RNR may be reported to it again. It is for
// tests and the simulation, allocates, and is not safe for concurrent use.
type Judge struct {
	// FirstMsgID is the msg_id of a peer's first message; it is 0 in all releases.
	FirstMsgID uint32

	profile era.Profile
	mtu     int
	known   bool          // HANDSHAKE was sent to some peer
	says    wire.Features // what it said
	early   wire.Features // features of it that were used before
	message bool          // an RTM came before
	sides   map[wire.RawAddr]*side
	current map[wire.RawAddr]*side // by GID and QPN, the last one heard of
}

// side is the state for one peer.
type side struct {
	addr    wire.RawAddr
	greeted bool // HANDSHAKE went out
	shook   bool // its HANDSHAKE came
	order   order
	in      incoming
	out     outgoing
}

// NewJudge makes a judge for an endpoint of the era, on a device of that MTU.
func NewJudge(p era.Profile, mtu int) *Judge {
	return &Judge{profile: p, mtu: mtu, sides: map[wire.RawAddr]*side{}, current: map[wire.RawAddr]*side{}}
}

// Take judges a packet that the endpoint receives from the peer at from. The connid
// of from may be 0: one in the packet takes precedence. A *Fault says what was
// wrong; after a fault the verdicts on later packets mean nothing.
func (j *Judge) Take(packet []byte, from wire.RawAddr) error {
	if f := j.take(packet, from); f != nil {
		return j.explain(f, packet)
	}
	return nil
}

// Sent notes a packet that the endpoint sends to the peer at to. The error is about
// packets that it took before: its HANDSHAKE shows that they used a feature that it
// lacks.
func (j *Judge) Sent(packet []byte, to wire.RawAddr) error {
	p, n, err := wire.Decode(packet)
	if err != nil {
		return nil // its own business
	}
	s := j.side(to, to.ConnID())
	if h, ok := p.(*wire.Handshake); ok {
		s.greeted = true
		if f := j.announced(h.Features); f != nil {
			return j.explain(f, packet)
		}
		return nil
	}
	v := look(p, len(packet)-n)
	s.in.sent(&v, &s.order)
	s.out.sent(&v)
	return nil
}

func (j *Judge) explain(f *Fault, packet []byte) error {
	f.Era, f.Packet = j.profile.Name, wiretext.Summary(packet)
	return f
}

func (j *Judge) take(b []byte, from wire.RawAddr) *Fault {
	packet, err := wire.Open(b)
	switch {
	case errors.Is(err, wire.ErrVersion):
		return bad(RuleVersion, "version %d", b[1])
	case errors.Is(err, wire.ErrShort):
		return bad(RuleForm, "%v", err)
	case err != nil:
		return bad(RuleType, "%v", err)
	case !understands(&j.profile, packet.Type):
		return bad(RuleType, "%v came later", packet.Type)
	}
	if f := j.connID(packet.Base); f != nil {
		return f
	}
	p, n, err := wire.Decode(b)
	if err != nil {
		return bad(RuleForm, "%v", err)
	}
	connid, ok := packet.ConnID()
	if !ok {
		connid = from.ConnID()
	}
	s := j.side(from, connid)
	v := look(p, len(b)-n)
	if f := j.request(s, p, &v, n); f != nil {
		return f
	}
	switch v.typ {
	case wire.TypeHandshake:
		if s.shook && j.profile.OneHandshake {
			return bad(RuleHandshake, "the second of this peer")
		}
		s.shook = true
		return nil
	case wire.TypeCTSData, wire.TypeREADRSP:
		return s.in.data(&v, s.greeted)
	case wire.TypePeerError:
		e := p.(*wire.PeerError)
		if form := j.profile.PeerErrors; e.Form != form {
			return bad(RuleForm, "a PEER_ERROR of %d bytes, another release's", len(b))
		}
		s.aborted(e)
		return nil
	default:
	}
	if !v.typ.IsREQ() {
		return s.out.answered(&v, !j.profile.NoNACKWrite)
	}
	if f := s.order.take(&v, &j.profile, &s.in); f != nil {
		return f
	}
	s.in.requested(&v)
	s.out.asked(&v)
	return nil
}

// side finds the peer at that address with that connid. Connid 0 stands for the
// most recent one.
func (j *Judge) side(addr wire.RawAddr, connid uint32) *side {
	place := wire.MakeRawAddr(addr.GID(), addr.QPN(), 0)
	if s := j.current[place]; s != nil && (connid == 0 || s.addr.ConnID() == connid) {
		return s
	}
	full := wire.MakeRawAddr(addr.GID(), addr.QPN(), connid)
	s := j.sides[full]
	if s == nil {
		s = &side{addr: full, order: order{next: j.FirstMsgID}}
		j.sides[full] = s
	}
	j.current[place] = s
	return s
}

// aborted forgets the operation that the peer gives up. The later forms name it by its msg_id,
// too, if it is a message.
func (s *side) aborted(p *wire.PeerError) {
	switch {
	case p.Form == wire.PeerErrorForm20 && p.RefKind != wire.RefOpe:
		s.order.skip(p.OpID)
	case p.OpID != wire.NoOpID:
		s.out.forget(p.OpID)
		s.in.forget(p.OpID)
	case p.Emitter == wire.EmitterTX:
		s.order.skip(p.MsgID)
	}
}
