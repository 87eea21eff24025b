package flow

import (
	"errors"
	"fmt"
	"time"
)

// Plan is what both sides do.
type Plan struct {
	Size    int  `json:"size"`    // bytes of a message
	Warm    int  `json:"warm"`    // messages before the clock starts, a multiple of Batch
	Count   int  `json:"count"`   // messages that count, a multiple of Batch
	Window  int  `json:"window"`  // most sends outstanding
	Batch   int  `json:"batch"`   // messages between answers, a multiple of Window
	Buffers int  `json:"buffers"` // that each direction uses in turn, at most Window
	Tagged  bool `json:"tagged"`
	Both    bool `json:"both"`  // ways at once
	Alloc   bool `json:"alloc"` // buffers are the domain's, not Go's
	// Think is for how long the receiver computes for each message.
	Think time.Duration `json:"think,omitempty"`
}

// Check says what is wrong with a plan.
func (p *Plan) Check() error {
	switch {
	case p.Size < 0:
		return fmt.Errorf("%w: size %d", errPlan, p.Size)
	case p.Window < 1 || p.Window > maxWindow:
		return fmt.Errorf("%w: window %d, want 1 to %d", errPlan, p.Window, maxWindow)
	case p.Batch < p.Window || p.Batch%p.Window != 0:
		return fmt.Errorf("%w: batch of %d, want a multiple of the window %d", errPlan, p.Batch, p.Window)
	case p.Buffers < 1 || p.Buffers > p.Window:
		return fmt.Errorf("%w: %d buffers, want 1 to %d", errPlan, p.Buffers, p.Window)
	case p.Warm < 1 || p.Warm%p.Batch != 0 || p.Count < 1 || p.Count%p.Batch != 0:
		return fmt.Errorf("%w: %d and %d messages, want multiples of %d", errPlan, p.Warm, p.Count, p.Batch)
	}
	return nil
}

const maxWindow = 8192

var errPlan = errors.New("bad plan")

// Last makes the plan take about so long at a rate of messages per second, with a tenth of
// that before the clock starts.
func (p *Plan) Last(d time.Duration, rate float64) {
	p.Messages(int(rate * d.Seconds()))
}

// Pilot makes the plan short, to find out what rate there is.
func (p *Plan) Pilot() {
	p.Messages(min(max(pilotBytes/max(p.Size, 1), 1), pilotMessages))
}

const (
	pilotBytes    = 64 << 20
	pilotMessages = 50_000
)

// Messages makes n of them count, rounded up to whole batches, and a tenth before.
func (p *Plan) Messages(n int) {
	batches := (n + p.Batch - 1) / p.Batch
	p.Count = max(batches, 1) * p.Batch
	p.Warm = max(batches/10, 1) * p.Batch
}

// Result is what a run came to.
type Result struct {
	Count int `json:"count"` // messages of each way
	// Nanos are the receivers' times, of one way or of both.
	Nanos []int64 `json:"ns"`
	// Wrong is how many receive buffers did not hold at the end what was sent.
	Wrong int `json:"wrong"`
	// Sender and Receiver are what the processes used for the messages that count, one way.
	Sender, Receiver Usage
}

// Usage is what a process used.
type Usage struct {
	CPU      time.Duration `json:"cpu"`
	Switches int           `json:"switches"` // as versus.Counts has them, if the receiver computes
	Calls    int           `json:"calls"`
}

// Rate is messages per second, of both ways together.
func (r *Result) Rate() (sum float64) {
	for _, ns := range r.Nanos {
		sum += float64(r.Count) / float64(ns) * 1e9
	}
	return sum
}

// Check says whether the figures can be.
func (r *Result) Check(p *Plan) error {
	ways := 1
	if p.Both {
		ways = 2
	}
	if r.Count != p.Count || len(r.Nanos) != ways {
		return fmt.Errorf("unexpected result %+v", *r)
	}
	for _, ns := range r.Nanos {
		if ns <= 0 {
			return fmt.Errorf("unexpected times %d", r.Nanos)
		}
	}
	if r.Wrong != 0 {
		return fmt.Errorf("%d receive buffers do not hold what was sent", r.Wrong)
	}
	return nil
}
