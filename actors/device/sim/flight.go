package sim

import (
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// flight is something in flight: a packet, a status or a timer.
type flight struct {
	at   clock.Time // 0: at any time, only the shuffling keeps it
	key  uint64     // orders flights of the same time
	seq  uint64     // of the request
	what flightKind

	src *qp // the requester: gets the status or the wake-up
	to  Endpoint

	// of requests and their statuses
	wr     device.SendWR
	token  uint64
	buf    []byte // the bytes of a packet lie here, unless CopyLate
	status device.Status

	// of deaths
	dead     nic.Source
	deadQKey uint32
	orderly  bool // it was closed
}

type flightKind uint8

const (
	requestFlight flightKind = iota // a packet or RDMA
	statusFlight
	goneFlight
	wakeFlight
	droppedFlight // RDMA of a queue pair that is no more
)

// Endpoint is a queue pair's place on the fabric.
type Endpoint struct {
	GID device.GID
	QPN uint16
}

// newFlight returns an empty flight, keeping the buffer of an earlier one.
func (f *Fabric) newFlight(what flightKind) *flight {
	n := len(f.spare)
	if n == 0 {
		return &flight{what: what}
	}
	fl := f.spare[n-1]
	f.spare = f.spare[:n-1]
	*fl = flight{what: what, buf: fl.buf}
	return fl
}

// take copies a packet's bytes into the flight.
func (f *Fabric) take(fl *flight) {
	if fl.buf == nil {
		fl.buf = make([]byte, f.cfg.MTU)
	}
	h := copy(fl.buf, fl.wr.Header)
	p := copy(fl.buf[h:], fl.wr.Payload)
	fl.wr.Header, fl.wr.Payload = fl.buf[:h], fl.buf[h:h+p]
}

// depart puts fl in flight for d; with 0, only shuffling keeps it.
func (f *Fabric) depart(fl *flight, d time.Duration) {
	fl.at = 0
	if d > 0 || f.virtual != nil {
		fl.at = f.clk.Now().Add(d)
	}
	fl.key = 0
	if !f.cfg.InOrder {
		fl.key = f.rng.Uint64()
	}
	if fl.at == 0 {
		f.held++
	}
	f.flights.push(fl)
	f.moving.Store(true)
}

func (f *Fabric) pop() *flight {
	fl := f.flights.pop()
	if fl.at == 0 {
		f.held--
	}
	f.moving.Store(len(f.flights) > 0)
	return fl
}

// pump performs the events that are due, except for keep requests that are held
// back only to change places. Real time only.
func (f *Fabric) pump(keep int) {
	if len(f.flights) == 0 {
		return
	}
	now := f.clk.Now()
	for len(f.flights) > 0 {
		top := f.flights[0]
		if top.at > now || top.at == 0 && f.held <= keep {
			return
		}
		f.happen(f.pop())
	}
}

// flightHeap is a binary heap by time, key and sequence.
type flightHeap []*flight

func (a *flight) before(b *flight) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.key != b.key {
		return a.key < b.key
	}
	return a.seq < b.seq
}

func (h *flightHeap) push(fl *flight) {
	*h = append(*h, fl)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *flightHeap) pop() *flight {
	s := *h
	top, n := s[0], len(s)-1
	s[0], s[n] = s[n], nil
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < n && s[c].before(s[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
