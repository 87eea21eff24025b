package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// parents holds the application's spans that operations are part of, by the IDs of
// the requests. Posting goroutines put them in, the reader of the records takes them
// out. A newer span replaces one that was not taken in time.
type parents struct {
	mu    sync.Mutex
	slots []parent
}

type parent struct {
	id uint64
	sc trace.SpanContext
}

func (p *parents) put(id uint64, sc trace.SpanContext, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == nil {
		p.slots = make([]parent, slots)
	}
	p.slots[id%uint64(len(p.slots))] = parent{id, sc}
}

func (p *parents) take(id uint64) (sc trace.SpanContext) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == nil {
		return sc
	}
	if x := &p.slots[id%uint64(len(p.slots))]; x.id == id {
		sc, *x = x.sc, parent{}
	}
	return sc
}
