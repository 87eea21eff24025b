package sim

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of event.
const (
	EventOpen   EventKind = iota // From is a new queue pair
	EventClose                   // From was closed
	EventKill                    // From vanished
	EventPost                    // a packet or RDMA left From; From, To, QKey, Seq, bytes
	EventArrive                  // it arrived at To, with the Status that it met there
	EventStatus                  // From learns how its request ended
	EventGone                    // To learns that From vanished
	EventFault                   // Fault struck a request, or From
)

var eventText = [...]string{"open", "close", "kill", "post", "arrive", "status", "gone", "fault"}

// String names the kind as logs do.
func (k EventKind) String() string {
	if int(k) < len(eventText) {
		return eventText[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is one thing that happened on a fabric.
type Event struct {
	Time     clock.Time
	Kind     EventKind
	Seq      uint64 // number of the request, from 1; a device resend has a new one
	From, To Endpoint
	QKey     uint32
	Status   device.Status
	Fault    Fault

	// Of requests: EventPost, EventArrive, EventStatus (only WR).
	WR     device.WR
	HasImm bool
	Imm    uint32
	RKey   uint64 // of RDMA
	Remote uint64 // of RDMA

	// The bytes, valid during the call. Those of a read are its result from
	// EventArrive with StatusOK on, and undefined before.
	Header, Payload []byte
}

func requestEvent(kind EventKind, seq uint64, from *qp, to Endpoint, wr *device.SendWR) Event {
	return Event{
		Kind: kind, Seq: seq, From: from.endpoint(), To: to, QKey: wr.QKey,
		WR: wr.Kind, HasImm: wr.HasImm, Imm: wr.Imm, RKey: wr.RKey, Remote: wr.Remote,
		Header: wr.Header, Payload: wr.Payload,
	}
}

// Type is the packet's first byte, which tells its type (§1.3). RDMA has none.
func (e *Event) Type() (byte, bool) {
	switch {
	case e.WR != device.WRSend:
		return 0, false
	case len(e.Header) > 0:
		return e.Header[0], true
	case len(e.Payload) > 0:
		return e.Payload[0], true
	default:
		return 0, false
	}
}

// String is one line of a log. It depends on nothing but the event.
func (e Event) String() string {
	s := fmt.Sprintf("%d %v", int64(e.Time), e.Kind)
	if e.Seq != 0 {
		s += fmt.Sprintf(" #%d", e.Seq)
	}
	s += fmt.Sprintf(" %v/%d", e.From.GID, e.From.QPN)
	if e.To != (Endpoint{}) {
		s += fmt.Sprintf(" -> %v/%d", e.To.GID, e.To.QPN)
	}
	switch e.Kind {
	case EventPost, EventArrive:
		s += e.request()
	case EventFault:
		s += " " + e.Fault.String()
	case EventStatus:
		if e.WR != device.WRSend {
			s += " " + kindText(e.WR)
		}
	case EventOpen, EventClose, EventKill, EventGone:
	}
	if e.Kind == EventArrive || e.Kind == EventStatus {
		s += ": " + e.Status.String()
	}
	return s
}

// request describes a packet or RDMA for String.
func (e *Event) request() string {
	s := fmt.Sprintf(" qkey=%08x", e.QKey)
	if t, ok := e.Type(); ok || e.WR == device.WRSend {
		s += fmt.Sprintf(" type=%d", t)
	} else {
		s += fmt.Sprintf(" %s rkey=%08x remote=%x", kindText(e.WR), e.RKey, e.Remote)
	}
	s += fmt.Sprintf(" len=%d", len(e.Header)+len(e.Payload))
	if e.WR != device.WRRead || e.Kind == EventArrive && e.Status == device.StatusOK {
		s += fmt.Sprintf(" crc=%08x", crc32.Update(crc32.ChecksumIEEE(e.Header), crc32.IEEETable, e.Payload))
	}
	if e.HasImm {
		s += fmt.Sprintf(" imm=%08x", e.Imm)
	}
	return s
}

func kindText(k device.WR) string {
	if k == device.WRRead {
		return "read"
	}
	return "write"
}

// TextLog is a Config.Hook that writes each event as a line to w.
func TextLog(w io.Writer) func(Event) {
	return func(e Event) { fmt.Fprintln(w, e) }
}
