package efa

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// NextEvent waits for the next event. When ctx ends it returns ctx's error, and
// when the endpoint is closed and all events were read, ErrClosed. Each event goes
// to one reader.
func (e *Endpoint) NextEvent(ctx context.Context) (_ Event, err error) {
	defer formed("next event", &err)
	v := &e.events
	var sig shard.Signal
	v.mu.Lock()
	v.waiting = append(v.waiting, &sig)
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.waiting = without(v.waiting, &sig)
	}()
	for {
		v.mu.Lock()
		ev, ok := v.pop()
		done := v.done
		sig.Reset()
		v.mu.Unlock()
		switch {
		case ok:
			return ev, nil
		case done:
			return Event{}, fmt.Errorf("%w: endpoint", ErrClosed)
		}
		if err := e.sh.Wait(ctx, &sig); err != nil {
			return Event{}, contextError(ctx, err)
		}
	}
}

// TryEvent returns the oldest event that was not read yet.
func (e *Endpoint) TryEvent() (Event, bool) {
	v := &e.events
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pop()
}

// Stats returns the endpoint's counters by name: packets by type
// ("PacketsSent.CTS"), what was dropped and why ("BadShort"), RNR and back-off,
// the device queue ("Queue.RNR"), the steps of the protocol machines
// ("tx.TXE_REQ posted"), memory for unexpected messages. Names may change between
// releases. It asks the endpoint's shard, so it is not for the hot path.
func (e *Endpoint) Stats(ctx context.Context) (_ map[string]uint64, err error) {
	defer formed("stats", &err)
	stats := make(map[string]uint64)
	err = e.ask(ctx, func(act *endpoint.Endpoint) {
		act.EachStat(func(name string, n uint64) { stats[name] = n })
	})
	if err != nil {
		return nil, err // the shard may yet write to stats
	}
	return stats, nil
}

// ask has f run on the shard of the endpoint, which is enabled, and waits for that.
func (e *Endpoint) ask(ctx context.Context, f func(*endpoint.Endpoint)) error {
	if err := e.live(); err != nil {
		return err
	}
	var sig shard.Signal
	e.control(func() {
		f(e.act.Load())
		sig.Set()
	})
	if err := e.sh.Wait(ctx, &sig); err != nil {
		return contextError(ctx, err)
	}
	return nil
}

// Snapshot is what an endpoint is doing at one moment: peers, operations in progress
// and what each waits for, queues, counters. It can be marshaled as JSON.
type Snapshot = endpoint.Snapshot

// maxSnapshot is how many operations a Snapshot lists.
const maxSnapshot = 1000

// Snapshot says what the endpoint is doing right now; of its operations it lists the
// 1,000 oldest. It asks the endpoint's shard, which answers also while all operations
// are stuck, and takes about a microsecond for each peer and operation of its time.
func (e *Endpoint) Snapshot(ctx context.Context) (_ *Snapshot, err error) {
	defer formed("snapshot", &err)
	var s *Snapshot
	if err := e.ask(ctx, func(act *endpoint.Endpoint) { s = act.ReadSnapshot(maxSnapshot) }); err != nil {
		return nil, err
	}
	s.Taken, s.Address = clock.Wall(), e.Address().String()
	return s, nil
}

// Setting is one of the protocol's settings (fi_getparams).
type Setting struct {
	Name    string // of the field of ProtocolConfig
	EFA     string // the EFA provider's variable of the same meaning; "" if there is none
	Type    string // Go's
	Default any    // on the endpoint's device
	Value   any    // in force
}

// variables are the EFA provider's names of settings.
var variables = map[string]string{
	"SendQueue": "FI_EFA_TX_SIZE", "RecvQueue": "FI_EFA_RX_SIZE", "Refill": "FI_EFA_INTERNAL_RX_REFILL_THRESHOLD",
	"MaxMedium": "FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", "MinRead": "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE",
	"MinReadWrite": "FI_EFA_INTER_MIN_READ_WRITE_SIZE", "MaxCopy": "FI_EFA_MAX_MEMCPY_SIZE", "ReadSegment": "FI_EFA_READ_SEGMENT_SIZE",
	"RuntSize": "FI_EFA_RUNT_SIZE", "Credits": "FI_EFA_TX_MIN_CREDITS", "RecvWindow": "FI_EFA_RECVWIN_SIZE",
	"RNRRetry": "FI_EFA_RNR_RETRY", "RNRInitial": "FI_EFA_TIMEOUT_INTERVAL", "RNRMax": "FI_EFA_MAX_TIMEOUT",
	"NoRDMARead": "FI_EFA_USE_DEVICE_RDMA", "NoRDMAWrite": "FI_EFA_USE_DEVICE_RDMA", "Homogeneous": "FI_OPT_EFA_HOMOGENEOUS_PEERS",
}

// Settings lists the settings of an endpoint's protocol, in the order of ProtocolConfig's fields:
// what each would be by default, and what is in force. Before Enable the values are those that
// NewEndpoint was given.
func (e *Endpoint) Settings() []Setting {
	info := e.dom.fab.dev.Info()
	usual := reflect.ValueOf(settings.New(ProtocolConfig{}, &info).On(&info).Settings)
	now := reflect.ValueOf(e.Config().Protocol)
	var list []Setting
	for i := range now.NumField() {
		f := now.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		list = append(list, Setting{
			Name: f.Name, EFA: variables[f.Name], Type: f.Type.String(), Default: usual.Field(i).Interface(), Value: now.Field(i).Interface(),
		})
	}
	return list
}

// Telemetry says what the endpoints on a Fabric tell OpenTelemetry. The zero value:
// nothing, with no spans and no allocations; docs/performance.md has what the checks cost.
// docs/telemetry.md has all names.
//
// With a TracerProvider every operation has a span on either side. Those of the two
// sides of a message are in one trace, which follows from the ids in its packets; a peer
// without tracing, for instance a libfabric, notices nothing. An operation that is part
// of a span of the application (the context of a blocking call, or the Parent of a
// request) has its span within that one, with a link to the trace of the message.
//
// With a MeterProvider there are metrics, by kind of device and by EndpointConfig.Name: an
// endpoint is asked for its counters once a collection.
//
// Shards only write short records; a goroutine of the Fabric's makes spans of them. If
// it does not keep up, records are dropped, and the spans concerned say so.
type Telemetry struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Ratio is the share of operations that have a span, from 0 to 1; 0 means all,
	// negative none. Both sides of a message choose alike if they have the same Ratio.
	// What is part of a sampled span of the application has a span always.
	Ratio float64
	// Slow is from which duration on an operation has a span although Ratio has left
	// it out, as one that failed has: without the events between beginning and end.
	// The duration of a receive counts from when both it and its message are there.
	// 0: none for being slow.
	Slow time.Duration
	// Records is how many records of 32 bytes an endpoint keeps until they are read,
	// about 8 for a short message sent or received; 0: 16384.
	Records int
}

func (t *Telemetry) check() error {
	if !(t.Ratio <= 1) || t.Slow < 0 || t.Records < 0 {
		return fmt.Errorf("%w: Telemetry: ratio %v, slow %v, %d records", ErrInvalid, t.Ratio, t.Slow, t.Records)
	}
	return nil
}

// observe starts what Config.Telemetry asks for.
func (f *Fabric) observe(t *Telemetry) (err error) {
	if err := t.check(); err != nil {
		return err
	}
	cfg := telemetry.Config{
		TracerProvider: t.TracerProvider, MeterProvider: t.MeterProvider, Ratio: t.Ratio, Slow: t.Slow, Records: t.Records,
		Device:  telemetry.Device{Name: f.dev.Info().Name, Kind: strings.Join(slices.Compact(f.schemes()), ",")},
		Regions: func() (int64, int64) { return f.regions.Load(), f.registered.Load() },
	}
	for i := range f.paths {
		cfg.Devices = append(cfg.Devices, telemetry.Device{Name: f.paths[i].name, Kind: f.paths[i].scheme})
	}
	if f.dev.Environment() != nil {
		cfg.Inline = true
		cfg.Wall = func(t clock.Time) time.Time { return time.Unix(0, int64(t)) }
	}
	f.tele, err = telemetry.New(cfg)
	return err
}

// FlushTelemetry makes spans of all operations on the Fabric that have ended. Without
// it that takes up to 50 ms; an endpoint that is closed does it, too.
func (f *Fabric) FlushTelemetry() {
	if f.tele == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushMost)
	defer cancel()
	for _, d := range f.domains.all() {
		for _, e := range d.eps.all() {
			// A call returns within the turn that ends its operation. When the shard answers, that turn is over.
			_ = e.ask(ctx, func(*endpoint.Endpoint) {})
		}
	}
	f.tele.Drain()
}

// flushMost bounds how long FlushTelemetry waits for shards.
const flushMost = time.Second

// follow begins to observe an endpoint that is about to be enabled, and returns where
// its shard leaves records, if it is to.
func (e *Endpoint) follow() *trail.Log {
	t := e.dom.fab.tele
	if t == nil {
		return nil
	}
	if e.tele != nil { // enabled again: operations read it at any time
		return e.tele.Log()
	}
	e.tele = t.Open(telemetry.Endpoint{Name: e.cfg.Name, Now: e.sh.TurnTime, Sample: e.sample, Peer: e.cfg.AV.who})
	return e.tele.Log()
}

// unfollow ends that. ended: the endpoint was open, and its shard has done with it.
func (e *Endpoint) unfollow(ended bool) {
	switch {
	case e.tele == nil:
	case ended:
		e.tele.Close(e.last)
	default:
		e.tele.Close(nil)
	}
}

// onEnd runs on the shard when the endpoint has ended.
func (e *Endpoint) onEnd(act *endpoint.Endpoint) {
	if e.tele != nil {
		e.last = new(telemetry.Sample)
		act.ReadSample(e.last)
	}
}

// sample asks the shard for the endpoint's counters.
func (e *Endpoint) sample(ctx context.Context, to *telemetry.Sample) error {
	if err := e.ask(ctx, func(act *endpoint.Endpoint) { act.ReadSample(to) }); err != nil {
		return err
	}
	most := &to.Depths.Most
	most.Tx, most.Rx, most.Completions, to.Depths.Completions = e.tx.max, e.rx.max, 0, 0
	for i, s := range []*source{e.sendTo, e.recvTo} {
		if s != nil && (i == 0 || s != e.sendTo) { // a queue of several endpoints counts for each
			to.Depths.Completions += int64(s.ring.Len())
			most.Completions += int64(s.q.depth)
		}
	}
	return nil
}
