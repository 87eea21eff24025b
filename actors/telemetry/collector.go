package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Config configures a Collector. Without a provider there is none.
type Config struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Ratio is the share of operations that have a span however they end; 0: all,
	// negative: none.
	Ratio float64
	// Slow is the duration from which operations are recorded even if not sampled;
	// 0: no such duration.
	Slow time.Duration
	// Records is how many an endpoint's ring holds; 0: 16384.
	Records int
	// MaxOpen is how many operations are followed at a time; 0: 65536.
	MaxOpen int

	// Device is the endpoints' device, and Devices those that it joins, best first; nil: it
	// is one.
	Device  Device
	Devices []Device
	// Regions counts memory regions: those that are open, and all that were ever
	// opened.
	Regions func() (open, all int64)
	// Wall converts a shard's time to the time of day; nil: as clock.System does.
	Wall func(clock.Time) time.Time
	// Inline has shards read the records themselves when a ring is half full: one
	// goroutine runs everything, as in a simulation.
	Inline bool
}

// Defaults of Config.
const (
	DefaultRecords = 1 << 14
	DefaultMaxOpen = 1 << 16
	minRecords     = 1 << 10
)

// Collector reads the records that the endpoints of a fabric write, and makes
// traces and metrics of them. A nil Collector makes nothing.
type Collector struct {
	cfg       Config
	tracer    trace.Tracer // nil: no traces
	ratio     ratio
	durations *durations // nil: no metrics
	metrics   *metrics   // nil: no metrics
	kinds     trail.Kinds

	mu      sync.Mutex // guards the fields below, and reading
	labels  labels
	sources []*Source
	open    int  // operations
	free    pool // of them

	reading bool // a goroutine is
	asleep  atomic.Bool
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
}

// New returns a Collector, nil if there is no provider.
func New(cfg Config) (*Collector, error) {
	if cfg.TracerProvider == nil && cfg.MeterProvider == nil {
		return nil, nil
	}
	if cfg.Records == 0 {
		cfg.Records = DefaultRecords
	}
	cfg.Records = max(cfg.Records, minRecords)
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = DefaultMaxOpen
	}
	if cfg.Wall == nil {
		cfg.Wall = clock.OfDay
	}
	c := &Collector{cfg: cfg, ratio: newRatio(cfg.Ratio), kinds: trail.Everything, wake: make(chan struct{}, 1)}
	if cfg.TracerProvider != nil {
		c.tracer = cfg.TracerProvider.Tracer(Scope)
	} else {
		c.kinds = trail.Outcomes
	}
	if cfg.MeterProvider == nil {
		return c, nil
	}
	m := cfg.MeterProvider.Meter(Scope)
	var err error
	if c.durations, err = newDurations(m, cfg.Device); err != nil {
		return nil, err
	}
	c.metrics, err = newMetrics(m, c)
	return c, err
}

// Endpoint is an endpoint that a Collector is to follow.
type Endpoint struct {
	Name   string            // "": it has none
	Now    func() clock.Time // its shard's
	Sample Sampler           // reads its counters; nil: nobody does
	// Peer gives the handle and the name of a peer in the address vector; ok is false of one that
	// is not in it. Any goroutine may call it. nil: there is no address vector.
	Peer func(wire.RawAddr) (handle uint64, name string, ok bool)
}

// Open begins to follow an endpoint.
func (c *Collector) Open(e Endpoint) *Source {
	ring := trail.NewRing(c.cfg.Records)
	s := &Source{c: c, ring: ring, name: e.Name, peer: e.Peer, sample: e.Sample, ops: make(map[uint64]*op), lives: make(map[uint64]*life)}
	s.log = trail.New(trail.Config{Ring: ring, Now: e.Now, Kinds: c.kinds, Notify: c.notify})
	c.mu.Lock()
	defer c.mu.Unlock()
	s.label = c.labels.of(e.Name)
	c.sources = append(c.sources, s)
	if !c.reading && !c.cfg.Inline {
		c.reading, c.stop, c.done = true, make(chan struct{}), make(chan struct{})
		go c.read(c.stop, c.done)
	}
	return s
}

// Close ends what Open began: the shard writes no more. last holds the endpoint's
// final counters, nil if it has none. When Close returns, the spans of all the
// endpoint's operations have been made.
func (s *Source) Close(last *Sample) {
	c := s.c
	c.mu.Lock()
	s.close()
	s.closed = true
	c.sources = slices.DeleteFunc(c.sources, func(x *Source) bool { return x == s })
	if c.metrics != nil {
		c.metrics.retire(s.label, last, s.missing)
	}
	stop, done := c.stop, c.done
	last1 := len(c.sources) == 0 && c.reading
	if last1 {
		c.reading = false
	}
	c.mu.Unlock()
	if last1 {
		close(stop)
		<-done
	}
}

// Shutdown ends the metrics; all sources must be closed.
func (c *Collector) Shutdown() error {
	if c == nil || c.metrics == nil {
		return nil
	}
	return c.metrics.close()
}

// Drain reads what the shards have written so far and returns the number of
// records. Any goroutine may call it, but not a shard in the middle of a turn.
func (c *Collector) Drain() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.sources {
		n += s.drain()
	}
	return n
}

// dropOldest drops the oldest operation in progress, of s if it has one, to make room.
func (c *Collector) dropOldest(s *Source) bool {
	o := s.oldest
	if o == nil {
		return false
	}
	o.incomplete = true
	s.finish(o, o.ended)
	return true
}

// The intervals at which the goroutine looks for records: short after busy times,
// else long.
const (
	minNap = time.Millisecond
	maxNap = 50 * time.Millisecond
)

// read is the goroutine that drains the rings.
func (c *Collector) read(stop, done chan struct{}) {
	defer close(done)
	nap := minNap
	timer := clock.NewTimer(nap)
	defer timer.Stop()
	for {
		switch n := c.Drain(); {
		case n > c.cfg.Records/4:
			nap = 0
		case n > 0:
			nap = minNap
		default:
			nap = min(max(2*nap, minNap), maxNap)
		}
		if nap == 0 {
			select {
			case <-stop:
				return
			default:
				continue
			}
		}
		c.asleep.Store(true)
		timer.Reset(nap)
		select {
		case <-stop:
			return
		case <-c.wake:
		case <-timer.C:
		}
		c.asleep.Store(false)
	}
}

// A shard calls notify at the end of a turn when half of its ring is full.
func (c *Collector) notify() {
	switch {
	case c.cfg.Inline:
		c.Drain()
	case c.asleep.CompareAndSwap(true, false):
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}
