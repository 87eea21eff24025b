package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/efactor/efactor/actors/ope"
)

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
