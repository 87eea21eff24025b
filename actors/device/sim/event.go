package sim

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// EventKind tells events apart.
type EventKind uint8

// The kinds of event.
const (
	EventOpen   EventKind = iota // From is a new queue pair
	EventClose                   // From was closed
	EventKill                    // From vanished
	EventPost                    // a packet left From; From, To, QKey, Seq, bytes
	EventArrive                  // it came to To, with the Status that it met there
	EventStatus                  // From learns how its packet ended
	EventGone                    // To learns that From vanished
	EventFault                   // Fault struck a packet, or From
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
	Seq      uint64 // number of the packet, from 1; a device resend has a new one
	From, To Endpoint
	QKey     uint32
	Status   device.Status
	Fault    Fault

	// The packet's bytes, valid during the call.
	Header, Payload []byte
}

// Type is the packet's first byte, which tells its type (§1.3).
func (e *Event) Type() (byte, bool) {
	switch {
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
		sum := crc32.Update(crc32.ChecksumIEEE(e.Header), crc32.IEEETable, e.Payload)
		t, _ := e.Type()
		s += fmt.Sprintf(" qkey=%08x type=%d len=%d crc=%08x", e.QKey, t, len(e.Header)+len(e.Payload), sum)
	case EventFault:
		s += " " + e.Fault.String()
	case EventOpen, EventClose, EventKill, EventStatus, EventGone:
	}
	if e.Kind == EventArrive || e.Kind == EventStatus {
		s += ": " + e.Status.String()
	}
	return s
}

// TextLog is a Config.Hook that writes each event as a line to w.
func TextLog(w io.Writer) func(Event) {
	return func(e Event) { fmt.Fprintln(w, e) }
}

// hook tells the hook, if there is one. The fabric is locked, which puts the
// calls in order.
func (f *Fabric) hook(e Event) {
	if f.cfg.Hook != nil {
		e.Time = f.clk.Now()
		f.cfg.Hook(e)
	}
}
