package script

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

var kinds = map[endpoint.EventKind]string{
	endpoint.PeerFailed: "PeerFailed", endpoint.MemoryPressure: "MemoryPressure",
	endpoint.MemoryRelieved: "MemoryRelieved",
	endpoint.BadPacket:      "BadPacket", endpoint.StrangersCrowded: "StrangersCrowded", endpoint.StrangersRelieved: "StrangersRelieved",
	endpoint.PeerPressure: "PeerPressure", endpoint.PeerRelieved: "PeerRelieved", endpoint.DeviceFailed: "DeviceFailed", endpoint.NewPeer: "NewPeer",
	endpoint.AccessRefused: "AccessRefused", endpoint.PeerClosed: "PeerClosed",
}

func (r *Rig) log(format string, args ...any) { r.Log = append(r.Log, fmt.Sprintf(format, args...)) }

// TakeLog returns the log and begins a new one.
func (r *Rig) TakeLog() string {
	out := strings.Join(r.Log, "\n")
	r.Log = nil
	return out
}

// Text describes a packet in the words of wiretext.Summary, with names for the
// addresses that the rig knows.
func (r *Rig) Text(b []byte) string {
	s := pieces.ReplaceAllStringFunc(wiretext.Summary(b), r.namePiece)
	for _, x := range r.remotes {
		s = strings.ReplaceAll(s, x.Addr.String(), x.Name)
		s = strings.ReplaceAll(s, fmt.Sprintf("connid=0x%x", x.Addr.ConnID()), "connid="+x.Name)
	}
	return s + payload(b)
}

// payload describes a packet's data: the seed of the message's pattern, or an
// atomic's numbers.
func payload(b []byte) string {
	pkt, h, err := wire.Decode(b)
	if err != nil || !pkt.Type().HasData() || len(b) == h {
		return ""
	}
	off := uint64(0)
	switch p := pkt.(type) {
	case *wire.MediumRTM:
		off = p.SegOffset
	case *wire.RuntReadRTM:
		off = p.SegOffset
	case *wire.CTSData:
		off = p.SegOffset
	case *wire.RTA:
		return " value=" + Values(p.Datatype, b[h:])
	case *wire.ATOMRSP:
		return " value=" + hex.EncodeToString(b[h:])
	}
	return contents(b[h:], int(off))
}

// pieces are the entries of rma_iov and read_iov in wiretext.Summary.
var pieces = regexp.MustCompile(`0x[0-9a-f]+\+\d+@\d+`)

func (r *Rig) namePiece(s string) string {
	var e wire.RMAIOV
	if _, err := fmt.Sscanf(s, "0x%x+%d@%d", &e.Addr, &e.Len, &e.Key); err != nil {
		return s
	}
	return r.where(e)
}

// nameAt is the remote at a place, by Q_Key as well.
func (r *Rig) nameAt(gid device.GID, qpn uint16, qkey uint32) string {
	addr := wire.MakeRawAddr(gid, qpn, qkey)
	for _, x := range r.remotes {
		if x.Addr == addr {
			return x.Name
		}
	}
	return addr.String()
}

// numbers are the fields of a packet that have one.
var numbers = regexp.MustCompile(` (\w+)=(\d+)`)

func (r *Rig) logSent(s *Sent) {
	text := r.textSent(s)
	for _, m := range numbers.FindAllStringSubmatch(text, -1) {
		r.last[m[1]] = m[2]
	}
	r.log("me -> %s %s", r.nameAt(s.GID, s.QPN, s.QKey), text)
}

func (r *Rig) textSent(s *Sent) string {
	var out string
	switch {
	case s.NoHeader:
		out = fmt.Sprintf("DATA len=%d%s", len(s.Bytes), contents(s.Bytes, 0))
	case s.Kind == device.WRSend:
		out = r.Text(s.Bytes)
	case s.Kind == device.WRRead:
		out = "RDMA_READ " + r.where(wire.RMAIOV{Addr: s.Remote, Len: uint64(s.Len), Key: s.RKey})
	default:
		out = "RDMA_WRITE " + r.where(wire.RMAIOV{Addr: s.Remote, Len: uint64(s.Len), Key: s.RKey})
	}
	if s.HasImm {
		out += fmt.Sprintf(" imm=0x%x", s.Imm)
	}
	return out
}

func (r *Rig) logOutcome(op *Op, res *ope.Result) {
	if op.Ends > 1 {
		r.log("%s HAS %d OUTCOMES", op.Name, op.Ends)
	}
	if res.Err != nil {
		r.log("%s failed: %v", op.Name, res.Err)
		return
	}
	s := fmt.Sprintf("%s done len=%d", op.Name, res.N)
	if op.Req.Flags&ope.Multi != 0 {
		r.log("%s released, %d of %d used", op.Name, res.N, len(op.Req.Buf))
		return
	}
	if res.N < 0 {
		s = fmt.Sprintf("%s claimed len=%d", op.Name, ^res.N)
	}
	switch op.Req.Kind {
	case ope.KindRecv, ope.KindTake, ope.KindPeek, ope.KindClaim:
		s += " from=" + r.NameOf(res.Peer)
		if op.Req.Flags&ope.Tagged != 0 {
			s += fmt.Sprintf(" tag=0x%x", res.Tag)
		}
		if res.HasData {
			s += fmt.Sprintf(" data=0x%x", res.Data)
		}
		s += contents(op.data(max(res.N, 0)), 0)
	case ope.KindRead:
		s += contents(op.data(res.N), 0)
	case ope.KindAtomic:
		if op.Req.Form != ope.AtomicWrite {
			s += " result=" + Values(wire.Datatype(op.Req.Type), op.Req.More.Result)
		}
	default:
	}
	r.log("%s", s)
}

// contents describes the part of a message that is in memory.
func contents(b []byte, off int) string {
	seed, ok := Seed(b, off)
	switch {
	case !ok:
		return " CORRUPT"
	case len(b) == 0:
		return ""
	default:
		return fmt.Sprintf(" seed=%d", seed)
	}
}

func (r *Rig) logWritten(w endpoint.Written) {
	from := r.NameOf(w.Handle)
	if w.Handle == peer.Unlisted {
		from += " at=" + r.whoseQP(w.From)
	}
	r.log("written from=%s len=%d data=0x%x", from, w.N, w.Data)
}

func (r *Rig) logEvent(ev endpoint.Event) {
	s := "event " + kinds[ev.Kind]
	if ev.Addr != (wire.RawAddr{}) {
		s += " " + r.nameAt(ev.Addr.GID(), ev.Addr.QPN(), ev.Addr.ConnID())
	}
	if ev.Err != nil {
		s += ": " + ev.Err.Error()
	}
	r.log("%s", s)
}

// whoseQP is the name of the remote endpoint at a queue pair.
func (r *Rig) whoseQP(a *wire.RawAddr) string {
	for _, x := range r.remotes[1:] {
		if x.Addr.GID() == a.GID() && x.Addr.QPN() == a.QPN() {
			return x.Name
		}
	}
	return a.String()
}
