package script

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

var kinds = map[endpoint.EventKind]string{
	endpoint.PeerFailed: "PeerFailed", endpoint.MemoryPressure: "MemoryPressure",
	endpoint.MemoryRelieved: "MemoryRelieved", endpoint.DeviceFailed: "DeviceFailed", endpoint.NewPeer: "NewPeer",
}

func (r *Rig) log(format string, args ...any) { r.Log = append(r.Log, fmt.Sprintf(format, args...)) }

// TakeLog returns the log and begins a new one.
func (r *Rig) TakeLog() string {
	out := strings.Join(r.Log, "\n")
	r.Log = nil
	return out
}

// Text describes a packet in the words of wire.Summary, with names for the
// addresses that the rig knows.
func (r *Rig) Text(b []byte) string {
	s := wire.Summary(b)
	for _, x := range r.remotes {
		s = strings.ReplaceAll(s, x.Addr.String(), x.Name)
		s = strings.ReplaceAll(s, fmt.Sprintf("connid=0x%x", x.Addr.ConnID()), "connid="+x.Name)
	}
	off, n := offset(b)
	if _, ok := Seed(b[len(b)-n:], off); !ok {
		s += " CORRUPT"
	}
	return s
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

func (r *Rig) logSent(s *Sent) {
	r.log("me -> %s %s", r.nameAt(s.GID, s.QPN, s.QKey), r.Text(s.Bytes))
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
	if op.Req.Kind == ope.KindRecv {
		s += " from=" + r.nameOf(res.Peer)
		if op.Req.Flags&ope.Tagged != 0 {
			s += fmt.Sprintf(" tag=0x%x", res.Tag)
		}
		if res.HasData {
			s += fmt.Sprintf(" data=0x%x", res.Data)
		}
		if seed, ok := Seed(op.Req.Buf[:res.N], 0); !ok {
			s += " CORRUPT"
		} else if res.N > 0 {
			s += fmt.Sprintf(" seed=%d", seed)
		}
	}
	r.log("%s", s)
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
