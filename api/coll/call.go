package coll

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
)

// call is one collective as one rank has it: its arguments, and the view through
// which an algorithm sees the group. It is the context of the operations that it is
// made of, too: one that also ends when the group fails.
type call struct {
	*group
	kind  kind
	set   settings
	err   error  // the first mistake in the arguments
	in    []byte // nil where the rank has none
	out   []byte
	lay   layout // of the long buffer; of alltoall, the one sent
	recvs layout // of alltoall, the buffer received
	root  int
	op    combiner
	bytes int // what choose goes by, the same on all ranks

	view *Comm // the view whose settings are used; may be nil
	elem any   // a nil *T of the type that the elements had last

	chosen choice     // what these were made of
	alg    *algorithm // nil: to be chosen
	sign   uint64

	tag    uint64 // of the collective, with the signature
	parent context.Context
	span   trace.Span // nil: no tracing
	both   context.Context

	temps temps
}

// choice holds the values on which the algorithm and the signature of a collective depend, besides
// its group and settings.
type choice struct {
	kind        kind
	root, bytes int
}

var calls = sync.Pool{New: func() any { return new(call) }}

// newCall returns a call of the collective. The one that the group had last is used again:
// with the same options, which are those of c if there are none, it knows them already.
func newCall(c *Comm, k kind, opts []Option) *call {
	x := c.spare.Swap(nil)
	if x == nil || x.view != c || len(opts) > 0 {
		x = x.of(c, opts)
	}
	x.kind = k
	return x
}

// of makes x, or another call if it is nil, one of c with options.
func (x *call) of(c *Comm, opts []Option) *call {
	if x == nil {
		x = calls.Get().(*call)
		x.group = c.group
	}
	x.view, x.set, x.alg = c, c.set, nil
	if len(opts) > 0 {
		x.set.apply(opts)
		x.view = nil // the next one does not have them
	}
	return x
}

// free returns the call to its group, which is likely to do the same again. Its
// tables are kept for the next one, and so is its choice.
func (x *call) free() {
	if len(x.temps.large) > 0 {
		x.temps.free()
	}
	x.temps.used = 0
	x.in, x.out, x.op, x.err = nil, nil, nil, nil
	x.parent, x.span, x.both, x.bytes, x.root = nil, nil, nil, 0, 0
	x.lay.offs, x.lay.q, x.lay.rem = nil, 0, 0
	if x.group.spare.CompareAndSwap(nil, x) {
		return
	}
	x.group, x.view, x.elem = nil, nil, nil
	calls.Put(x)
}

// run does the collective.
func (x *call) run(ctx context.Context) error {
	if err := x.begin(ctx); err != nil {
		return x.refused(err)
	}
	err := x.work()
	if err != nil {
		return x.refused(err)
	}
	x.free()
	return nil
}

// begin takes the collective's place in the order of the group's.
func (x *call) begin(ctx context.Context) error {
	if x.err != nil {
		return x.err
	}
	if x.closed.Load() && x.kind != kindClose {
		return efa.ErrClosed
	}
	if x.claim.Load() != nil {
		return x.failed()
	}
	if by := (choice{x.kind, x.root, x.bytes}); x.alg == nil || by != x.chosen {
		x.chosen, x.alg = by, x.choose()
		x.sign = sign(x.kind, x.alg.index, x.root, x.bytes)
	}
	x.tag = tagOf(x.id, x.seq.Add(1)-1) | x.sign
	x.parent = ctx
	return nil
}

// work performs the call that was begun.
func (x *call) work() error {
	if x.cfg.Tracer != nil {
		x.trace()
	}
	err := x.parent.Err()
	if err == nil {
		err = x.alg.run(x)
	}
	return x.end(err)
}

// end records the outcome of the collective.
func (x *call) end(err error) error {
	if x.both != nil {
		x.unwatch()
	}
	switch {
	case x.claim.Load() != nil:
		err = x.failed() // also if all has come: others count on it, see Close
	case err != nil:
		err = x.fail(x.verdict(err))
	}
	if x.span != nil {
		x.traced(err)
	}
	return err
}

// Deadline implements context.Context.
func (x *call) Deadline() (time.Time, bool) { return x.parent.Deadline() }

// Value implements context.Context.
func (x *call) Value(key any) any { return x.parent.Value(key) }

// Err implements context.Context.
func (x *call) Err() error {
	if e := x.fate.Load(); e != nil {
		return e
	}
	return x.parent.Err()
}

// Done implements context.Context. Package efa asks for it only when it is about
// to sleep, so the two contexts are put together only then.
func (x *call) Done() <-chan struct{} {
	switch {
	case x.both != nil:
		return x.both.Done()
	case x.parent.Done() == nil:
		return x.gone
	}
	both, cancel := context.WithCancel(x.parent)
	x.both = both
	x.mu.Lock()
	x.merged[x] = cancel
	x.mu.Unlock()
	select {
	case <-x.gone:
		cancel()
	default:
	}
	return both.Done()
}

// unwatch ends the context that Done made.
func (x *call) unwatch() {
	x.mu.Lock()
	cancel := x.merged[x]
	delete(x.merged, x)
	x.mu.Unlock()
	cancel()
	x.both = nil
}

// Names of attributes of a collective's span, and of the event that it has for each
// round of its algorithm.
const (
	AttrAlgorithm = attribute.Key("coll.algorithm")
	AttrBytes     = attribute.Key("coll.bytes") // of this rank's longest buffer
	AttrRanks     = attribute.Key("coll.ranks")
	AttrRank      = attribute.Key("coll.rank")
	AttrContext   = attribute.Key("coll.context") // of the group
	AttrStep      = attribute.Key("coll.step")
	AttrTo        = attribute.Key("coll.to")
	AttrFrom      = attribute.Key("coll.from")
	AttrSent      = attribute.Key("coll.sent")     // bytes
	AttrReceived  = attribute.Key("coll.received") // bytes
)

// trace begins the span.
func (x *call) trace() {
	x.parent, x.span = x.cfg.Tracer.Start(x.parent, x.kind.String(),
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(
			AttrAlgorithm.String(x.alg.name),
			AttrBytes.Int(max(len(x.in), len(x.out))),
			AttrRanks.Int(len(x.peers)),
			AttrRank.Int(x.rank),
			AttrContext.Int(int(x.id)),
		))
	if !x.span.IsRecording() {
		x.span.End()
		x.span = nil
	}
}

// round is an event of the span.
func (x *call) round(to, sent, from, received, step int) {
	a := make([]attribute.KeyValue, 0, 5)
	a = append(a, AttrStep.Int(step))
	if to >= 0 {
		a = append(a, AttrTo.Int(to), AttrSent.Int(sent))
	}
	if from >= 0 {
		a = append(a, AttrFrom.Int(from), AttrReceived.Int(received))
	}
	x.span.AddEvent("round", trace.WithAttributes(a...))
}

// traced ends the span.
func (x *call) traced(err error) {
	if err != nil {
		x.span.RecordError(err)
		x.span.SetStatus(codes.Error, err.Error())
	}
	x.span.End()
}
