package telemetry

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/efactor/efactor/actors/endpoint"
)

// Sample is a copy of an endpoint's counters.
type Sample = endpoint.Sample

// Sampler asks an endpoint's shard for a Sample. The error says that there is none.
type Sampler func(context.Context, *Sample) error

// totals are the counters of all endpoints with one label, open or closed, and the levels
// of the open ones.
type totals struct {
	Sample
	Endpoints int64
	Lost      uint64 // records
}

// metrics are the instruments that copy counters once a collection.
type metrics struct {
	c       *Collector
	reg     metric.Registration
	base    []attribute.KeyValue // of what is not counted by device
	devices []pathAttributes
	all     []observer

	retired map[string]*totals // of endpoints that were closed, by label; under the Collector's lock
}

// observer is an instrument in use.
type observer struct {
	*Instrument
	ints   metric.Int64Observable
	floats metric.Float64Observable
}

func newMetrics(m metric.Meter, c *Collector) (*metrics, error) {
	x := &metrics{c: c, base: c.cfg.Device.attributes(), devices: c.cfg.paths(), retired: map[string]*totals{}}
	var list []metric.Observable
	var errs []error
	for i := range Instruments {
		o := observer{Instrument: &Instruments[i]}
		var err error
		switch o.Kind {
		case Counter:
			o.ints, err = m.Int64ObservableCounter(o.Name, metric.WithUnit(o.Unit), metric.WithDescription(o.Text))
		case Level:
			o.ints, err = m.Int64ObservableUpDownCounter(o.Name, metric.WithUnit(o.Unit), metric.WithDescription(o.Text))
		case Seconds:
			o.floats, err = m.Float64ObservableCounter(o.Name, metric.WithUnit(o.Unit), metric.WithDescription(o.Text))
		case Histogram:
			continue // fed by records
		}
		errs = append(errs, err)
		x.all = append(x.all, o)
		if o.floats != nil {
			list = append(list, o.floats)
		} else {
			list = append(list, o.ints)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	x.reg, err = m.RegisterCallback(x.collect, list...)
	return x, err
}

func (x *metrics) close() error { return x.reg.Unregister() }

// collect is called once a collection: one snapshot of every endpoint, then all
// instruments from that.
func (x *metrics) collect(ctx context.Context, to metric.Observer) error {
	x.c.mu.Lock()
	sources := slices.Clone(x.c.sources)
	x.c.mu.Unlock()
	samples := make([]*Sample, len(sources))
	for i, s := range sources {
		if a := new(Sample); s.sample != nil && s.sample(ctx, a) == nil {
			samples[i] = a
		}
	}

	x.c.mu.Lock()
	sums := map[string]*totals{}
	for label, t := range x.retired {
		sums[label] = t.clone()
	}
	for i, s := range sources {
		if s.closed {
			continue // its last sample is in retired
		}
		if samples[i] != nil {
			s.latest = samples[i]
		}
		sum := sums[s.label]
		if sum == nil {
			sum = new(totals).clone()
			sums[s.label] = sum
		}
		sum.Endpoints++
		sum.Lost += s.ring.Lost()
		if s.latest != nil { // else it has yet to begin
			sum.add(s.latest)
		}
	}
	x.c.mu.Unlock()
	for _, o := range x.all {
		x.observe(to, o, sums)
	}
	return nil
}

// observe reports one instrument.
func (x *metrics) observe(to metric.Observer, o observer, sums map[string]*totals) {
	if o.fabric != nil {
		if r := x.c.cfg.Regions; r != nil {
			o.report(to, o.fabric(r()), x.base)
		}
		return
	}
	for label, sum := range sums {
		if o.device != nil {
			for _, d := range x.devices {
				var n int64
				for _, i := range d.paths {
					n += o.device(&sum.Paths[i])
				}
				o.report(to, n, d.attrs, named(label)...)
			}
			continue
		}
		o.observe(sum, func(v int64, attrs ...attribute.KeyValue) {
			o.report(to, v, x.base, append(attrs, named(label)...)...)
		})
	}
}

// report gives a value to OpenTelemetry.
func (o *observer) report(to metric.Observer, v int64, base []attribute.KeyValue, attrs ...attribute.KeyValue) {
	with := metric.WithAttributes(append(attrs, base...)...)
	if o.floats != nil {
		to.ObserveFloat64(o.floats, float64(v)/1e9, with)
	} else {
		to.ObserveInt64(o.ints, v, with)
	}
}

// retire keeps the counters of an endpoint that is closed. Under the Collector's lock.
func (x *metrics) retire(label string, last *Sample, lost uint64) {
	t := x.retired[label]
	if t == nil {
		t = new(totals).clone()
		x.retired[label] = t
	}
	t.Lost += lost
	if last != nil {
		s := *last
		s.Depths = endpoint.Depths{}
		for i := range s.Paths {
			s.Paths[i].Peers = 0
		}
		t.add(&s)
	}
}

// clone is a copy with a map of errors of its own, not nil.
func (t *totals) clone() *totals {
	c := *t
	if c.Tally.Errors = maps.Clone(t.Tally.Errors); c.Tally.Errors == nil {
		c.Tally.Errors = make(map[string]uint64)
	}
	return &c
}

// add adds a sample to the totals, whose map of errors is its own.
func (t *totals) add(s *Sample) {
	addNumbers(reflect.ValueOf(&t.Sample).Elem(), reflect.ValueOf(s).Elem())
	for k, v := range s.Tally.Errors {
		t.Tally.Errors[k] += v
	}
}

// addNumbers adds all numbers in a struct.
func addNumbers(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Uint64:
		to.SetUint(to.Uint() + from.Uint())
	case reflect.Int64:
		to.SetInt(to.Int() + from.Int())
	case reflect.Struct:
		for i := range from.NumField() {
			addNumbers(to.Field(i), from.Field(i))
		}
	case reflect.Array:
		for i := range from.Len() {
			addNumbers(to.Index(i), from.Index(i))
		}
	default: // maps
	}
}
