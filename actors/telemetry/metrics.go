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
	"github.com/efactor/efactor/actors/ope"
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

// kinds are the requests that become operations.
var kinds = []struct {
	name string
	of   []ope.Kind
}{
	{spanSend, []ope.Kind{ope.KindSend}},
	{spanReceive, []ope.Kind{ope.KindRecv, ope.KindTake}},
	{spanWrite, []ope.Kind{ope.KindWrite}},
	{spanRead, []ope.Kind{ope.KindRead}},
	{spanAtomic, []ope.Kind{ope.KindAtomic}},
}

// byOperation reports a number for each name.
func byOperation(o observe, get func(ope.Kind) uint64, attrs ...attribute.KeyValue) {
	for _, k := range kinds {
		var sum uint64
		for _, kind := range k.of {
			sum += get(kind)
		}
		o(int64(sum), append(slices.Clone(attrs), attrOperation.String(k.name))...)
	}
}

// messages counts the completed requests of some kinds.
func messages(name string, of ...ope.Kind) func(*totals, observe) {
	return func(t *totals, o observe) {
		var sum uint64
		for _, k := range of {
			sum += t.Tally.OK[k] + t.Tally.Failed[k]
		}
		o(int64(sum), attrSystem.String(system), attrOperation.String(name))
	}
}

func (t *totals) operations(o observe) {
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.OK[k] }, attrOutcome.String("ok"))
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.Failed[k] }, attrOutcome.String("failed"))
}

func (t *totals) moved(o observe) {
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.Bytes[k] })
}

func (t *totals) failures(o observe) {
	for _, name := range slices.Sorted(maps.Keys(t.Tally.Errors)) {
		o(int64(t.Tally.Errors[name]), attrErrorType.String(name))
	}
}

func (t *totals) mixture(o observe) {
	for p := ope.ProtoNone + 1; p < ope.NumProtos; p++ {
		name := attrProtocol.String(p.String())
		if n := t.Mix.Chosen[p]; n > 0 {
			o(int64(n), name, direction(false))
		}
		if n := t.Mix.Served[p]; n > 0 {
			o(int64(n), name, direction(true))
		}
	}
}

func (t *totals) packets(o observe) {
	for i := range t.Counters.PacketsSent {
		if n := t.Counters.PacketsSent[i] + t.Queue.ResentTypes[i]; n > 0 {
			o(int64(n), packetType(uint8(i)), direction(false))
		}
		if n := t.Counters.PacketsRecv[i]; n > 0 {
			o(int64(n), packetType(uint8(i)), direction(true))
		}
	}
}

func (t *totals) handshakes(o observe) {
	o(int64(t.Counters.HandshakesSent), direction(false))
	o(int64(t.Counters.HandshakesRecv), direction(true))
}

func (t *totals) drops(o observe) {
	c := &t.Counters
	for _, x := range []struct {
		reason string
		n      uint64
	}{
		{"short", c.BadShort},
		{"type", c.BadType},
		{"version", c.BadVersion},
		{"length", c.BadLength},
		{"id", c.BadID},
		{"msg_id", c.StaleMsgID},
		{"aborted", c.AbortedLate},
		{"connid", c.StaleConnID},
		{"no_address", c.NoAddress},
		{"crowded", c.Crowded},
		{"peer_down", c.PeerDown},
		{"refused", c.Refused},
	} {
		o(int64(x.n), attrReason.String(x.reason))
	}
}

// queue is the entries of a queue, or how many there may be.
type queue struct {
	name string
	n    int64
}

func (t *totals) depths(o observe) {
	d := &t.Depths
	eachQueue(o, []queue{
		{"send", d.SendQueue},
		{"tx", d.Tx},
		{"rx", d.Rx},
		{"posted", d.Posted},
		{"unexpected", d.Unexpected},
		{"completion", d.Completions},
	})
}

func (t *totals) capacities(o observe) {
	m := &t.Depths.Most
	eachQueue(o, []queue{{"send", m.SendQueue}, {"tx", m.Tx}, {"rx", m.Rx}, {"completion", m.Completions}})
}

func eachQueue(o observe, queues []queue) {
	for _, x := range queues {
		o(x.n, attrQueue.String(x.name))
	}
}

// Buckets are the bounds of the durations of operations, in seconds.
var Buckets = []float64{
	1e-6, 2e-6, 5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5, 10,
}

// durations is the histogram of how long operations take.
type durations struct {
	h    metric.Float64Histogram
	base []attribute.KeyValue
	sets map[mixKey][]metric.RecordOption // made once
}

type mixKey struct {
	endpoint, name, err string
	proto               ope.Proto
}

func newDurations(m metric.Meter, device Device) (*durations, error) {
	i := instrument(durationName)
	h, err := m.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Text),
		metric.WithExplicitBucketBoundaries(Buckets...))
	base := append([]attribute.KeyValue{attrSystem.String(system)}, device.attributes()...)
	return &durations{h: h, base: base, sets: map[mixKey][]metric.RecordOption{}}, err
}

// record counts an operation of an endpoint whose outcome the application has.
func (d *durations) record(endpoint string, o *op) {
	if d == nil {
		return
	}
	k := mixKey{endpoint: endpoint, name: roles[o.role].name, proto: o.proto}
	if o.failed() {
		k.err = ope.ErrorType(o.error())
	}
	opts := d.sets[k]
	if opts == nil {
		a := append([]attribute.KeyValue{attrOperation.String(k.name)}, d.base...)
		a = append(a, named(endpoint)...)
		if k.proto != ope.ProtoNone {
			a = append(a, attrProtocol.String(k.proto.String()))
		}
		if k.err != "" {
			a = append(a, attrErrorType.String(k.err))
		}
		opts = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(a...))}
		d.sets[k] = opts
	}
	d.h.Record(context.Background(), o.latency().Seconds(), opts...)
}
