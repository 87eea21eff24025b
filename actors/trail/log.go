package trail

import (
	"sync"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/trace"
	"github.com/efactor/efactor/wire"
)

// Log takes the records of one endpoint. Its methods are called on the endpoint's
// shard, except Address.
type Log struct {
	ring *trace.Ring
	now  func() clock.Time
	last uint64

	mu    sync.Mutex
	addrs map[uint64]wire.RawAddr // by span of peers and of the endpoint
	errs  map[uint64]error        // by span, until its end was read
}

// maxErrors bounds the errors that nobody has asked for yet.
const maxErrors = 1 << 12

// New returns a log that writes into ring, stamped by now.
func New(ring *trace.Ring, now func() clock.Time) *Log {
	return &Log{ring: ring, now: now, addrs: map[uint64]wire.RawAddr{}, errs: map[uint64]error{}}
}

// Next gives out a span; 0 if tracing is off.
func (l *Log) Next() uint64 {
	if l == nil {
		return 0
	}
	l.last++
	return l.last
}

// Put leaves a record.
func (l *Log) Put(span uint64, k Kind, code uint8, a uint64, b uint32) {
	if l != nil && span != 0 {
		l.put(span, k, code, a, b)
	}
}

func (l *Log) put(span uint64, k Kind, code uint8, a uint64, b uint32) {
	l.ring.Put(trace.Record{At: l.now(), Span: span, Kind: uint8(k), Code: code, A: a, B: b})
}

// Outcome leaves the record of an outcome ([Told], [End] or the end of a peer or
// endpoint), and keeps err for Err.
func (l *Log) Outcome(span uint64, k Kind, bytes uint64, err error) {
	if l == nil || span == 0 {
		return
	}
	if err == nil {
		l.put(span, k, uint8(OK), bytes, 0)
		return
	}
	l.mu.Lock()
	if len(l.errs) < maxErrors {
		l.errs[span] = err
	}
	l.mu.Unlock()
	l.put(span, k, uint8(Failed), bytes, 0)
}

// Err is what a span that has ended failed with, nil if that is not known (any
// more). Any goroutine; Forget drops it.
func (l *Log) Err(span uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[span]
}

// Name notes whose span it is, for Address.
func (l *Log) Name(span uint64, addr wire.RawAddr) {
	if l == nil || span == 0 {
		return
	}
	l.mu.Lock()
	l.addrs[span] = addr
	l.mu.Unlock()
}

// Address is the raw address of the peer, or endpoint, with a span. Any goroutine;
// Forget ends it.
func (l *Log) Address(span uint64) (wire.RawAddr, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.addrs[span]
	return a, ok
}

// Forget drops what is kept of a span whose end was read. Any goroutine.
func (l *Log) Forget(span uint64) {
	l.mu.Lock()
	delete(l.addrs, span)
	delete(l.errs, span)
	l.mu.Unlock()
}

// Flush lets the reader see the records: at the end of a turn.
func (l *Log) Flush() {
	if l != nil {
		l.ring.Flush()
	}
}
