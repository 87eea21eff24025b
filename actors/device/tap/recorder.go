package tap

import (
	"bytes"
	"sync"

	"github.com/efactor/efactor/runtime/clock"
)

// Recorder is a Sink that keeps everything, for tests.
type Recorder struct {
	clock.Clock

	mu      sync.Mutex
	records []Record
}

// NewRecorder returns an empty recorder.
func NewRecorder(clk clock.Clock) *Recorder { return &Recorder{Clock: clk} }

// Packet implements Sink.
func (r *Recorder) Packet(rec Record) {
	rec.Packet = bytes.Clone(rec.Packet) // nil stays nil
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
}

// Take returns the records since the last call; their bytes are the caller's.
func (r *Recorder) Take() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	recs := r.records
	r.records = nil
	return recs
}
