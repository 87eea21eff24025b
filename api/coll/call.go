package coll

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// call is one collective on one rank: its arguments, the algorithm chosen for it, and the
// view through which the algorithm sees the group. It is run by run, or by start for the
// non-blocking forms.
type call struct {
	group  *group
	family *family // the group's, as are rank and peers
	rank   int
	peers  []efa.Addr
	kind   kind
	set    settings
	err    error  // the first mistake in the arguments
	in     []byte // nil where the rank has none
	out    []byte
	lay    layout // of the long buffer; of alltoall, the one sent
	recvs  layout // of alltoall, the buffer received
	root   int
	op     combiner
	bytes  int // what choose goes by, the same on all ranks

	view *Comm // the view whose settings are used; may be nil
	elem any   // a nil *T of the type that the elements had last

	chosen choice     // what these were made of
	alg    *algorithm // nil: to be chosen
	sign   uint64

	tag    uint64 // of the collective, with the signature
	parent context.Context
	span   trace.Span // nil: no tracing
	both   ending

	temps temps
}

// choice holds the values on which the algorithm and the signature of a collective depend, besides
// its group and settings.
type choice struct {
	kind        kind
	root, bytes int
}

var calls = sync.Pool{New: func() any { return new(call) }}

// of makes x, or another call if it is nil, one of c with options.
func (x *call) of(c *Comm, opts []Option) *call {
	if x == nil {
		x = calls.Get().(*call)
		x.group = c.group
		x.family, x.rank, x.peers = c.family, c.rank, c.peers
	}
	x.view, x.set, x.alg = c, c.set, nil
	if len(opts) > 0 {
		x.set.apply(opts)
		x.view = nil // the next one does not have them
	}
	return x
}

// retype sets the type of the elements: elem is a nil pointer to one, n its size.
func (x *call) retype(elem any, n int, err error) {
	if x.elem = elem; err != nil {
		x.refuse(err)
		x.elem, n = nil, 1
	}
	x.lay.elem, x.recvs.elem = n, n
}

// free returns the call to its group, which is likely to do the same again. Its
// tables are kept for the next one, and so is its choice.
func (x *call) free() {
	if len(x.temps.large) > 0 {
		x.temps.free()
	}
	x.temps.used = 0
	x.in, x.out, x.op, x.err = nil, nil, nil, nil
	x.parent, x.span, x.bytes, x.root = nil, nil, 0, 0
	x.lay.offs, x.lay.q, x.lay.rem = nil, 0, 0
	g := x.group // x is another's as soon as it is the spare
	if g.spare.CompareAndSwap(nil, x) {
		if g.closed.Load() {
			g.unspare()
		}
		return
	}
	x.unwatch()
	x.group, x.family, x.peers, x.view, x.elem = nil, nil, nil, nil, nil
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

// start does the collective beside the caller.
func (x *call) start(ctx context.Context) (*Request, error) {
	if err := x.begin(ctx); err != nil {
		return nil, x.refused(err)
	}
	g := x.group
	r := new(Request)
	if err := g.family.newSignal(&r.over); err != nil {
		// The others have to do without us.
		err = g.fail(&RankError{g.rank, err})
		return nil, x.refused(err)
	}
	g.mu.Lock()
	g.pending[r] = struct{}{}
	g.mu.Unlock()
	g.family.spawn(func() { x.beside(r) })
	return r, nil
}

// beside does the collective of a request. A panic of the caller's operator is the request's
// error, since there is no caller here to recover from it.
func (x *call) beside(r *Request) {
	g, left := x.group, true
	defer func() {
		if left {
			_ = recover()
			r.err = x.named(g.failed())
		}
		g.mu.Lock()
		delete(g.pending, r)
		g.mu.Unlock()
		r.over.set()
	}()
	err := x.work()
	left = false
	if err != nil {
		r.err = x.refused(err)
	} else {
		x.free()
	}
}

// begin gives the collective the next sequence number of the group.
func (x *call) begin(ctx context.Context) error {
	if x.err != nil {
		return x.err
	}
	if x.group.closed.Load() && x.kind != kindClose {
		return efa.ErrClosed
	}
	if x.group.claim.Load() != nil {
		return x.group.failed()
	}
	if by := (choice{x.kind, x.root, x.bytes}); x.alg == nil || by != x.chosen {
		x.chosen, x.alg = by, x.choose()
		x.sign = sign(x.kind, x.alg.index, x.root, x.bytes)
	}
	x.tag = tagOf(x.group.id, x.group.seq.Add(1)-1) | x.sign
	x.parent = ctx
	return nil
}

// choose is the algorithm of the call: the one that was asked for, if it can be.
func (x *call) choose() *algorithm {
	all := algorithms[x.kind]
	if len(all) == 1 {
		return &all[0]
	}
	name := ""
	if x.set.use != "" {
		name = x.set.use
	}
	for pass := range 2 {
		if pass == 1 || name == "" {
			name = choose(x.kind, x.bytes, len(x.peers), x.set.ordered)
		}
		for i := range all {
			if a := &all[i]; a.name == name && (a.fits == nil || a.fits(len(x.peers), x.set.ordered)) {
				return a
			}
		}
	}
	return &all[0]
}

// work performs the call that was begun. A panic of the caller's operator, or its end of the
// goroutine, leaves the call, too, and then the group fails before it goes on.
func (x *call) work() error {
	left := true
	defer func() {
		if left {
			x.leave(recover())
		}
	}()
	if x.family.cfg.Tracer != nil {
		x.trace()
	}
	err := x.parent.Err()
	if err == nil {
		x.watch()
		err = x.alg.run(x)
	}
	left = false
	return x.end(err)
}

// leave ends a call whose goroutine panics with v, or ends if v is nil. The call is not used
// again: what has left it may hold its buffers.
func (x *call) leave(v any) {
	why := fmt.Errorf("%w: the goroutine ended in %v (runtime.Goexit)", ErrAborted, x.kind)
	if v != nil {
		why = fmt.Errorf("%w: panic in %v: %v", ErrAborted, x.kind, v)
	}
	_ = x.group.fail(&RankError{x.rank, why})
	_ = x.end(why)
	x.unwatch()
	if v != nil {
		panic(v)
	}
}

// end records the outcome of the collective.
func (x *call) end(err error) error {
	switch {
	case x.group.claim.Load() != nil:
		err = x.group.failed() // also if all has come: others count on it, see Close
	case err != nil:
		err = x.group.fail(x.verdict(err))
	}
	if x.span != nil {
		x.traced(err)
	}
	return err
}

// verdict determines the rank at fault for an error of an algorithm.
func (x *call) verdict(err error) *RankError {
	var at *peerError
	switch {
	case x.parent.Err() != nil:
		return &RankError{x.rank, givenUp(x.parent)}
	case !errors.As(err, &at) || ours(err):
		return &RankError{x.rank, err}
	case errors.Is(err, efa.ErrPeerAborted), errors.Is(err, efa.ErrAccess), errors.Is(err, efa.ErrNoKey):
		// It has given up its part with us, and will send the reason. This receive
		// takes nothing: it ends when the revocation arrives, or the peer dies.
		never := efa.Match{Tag: revokeTag(x.group.id) | tagAck}
		_, _ = x.family.ep.RecvTag(x.both.Context, never, nil, efa.From(x.peers[at.rank]))
	}
	if e := x.group.revocations.heardOf(x.group); e != nil {
		return e
	}
	if !errors.Is(err, ErrMismatch) && !died(err) {
		err = fmt.Errorf("%w: %w", efa.ErrPeerFailed, err) // it is nowhere any more
	}
	return &RankError{at.rank, err}
}

// refused frees a call and gives its error the collective's name.
func (x *call) refused(err error) error {
	err = x.named(err)
	x.free()
	return err
}

func (x *call) named(err error) error {
	return &errtext.Error{Package: "coll", Op: x.kind.String(), Err: err}
}

// ending is the context of a call's operations: it ends with the caller's context and with the group, and has
// the values of the former. It stays with the call for the next that has the same.
type ending struct {
	context.Context
	of   context.Context // the caller's
	done <-chan struct{} // of's: some programs use a context again for another request
}

// watch makes the ending that belongs to the caller's context.
func (x *call) watch() {
	done := x.parent.Done()
	if x.both.of != nil && x.both.of == x.parent && x.both.done == done && x.both.Err() == nil {
		return
	}
	x.unwatch()
	g := x.group
	both, cancel := context.WithCancelCause(x.parent)
	x.both.Context, x.both.done = both, done
	if reflect.ValueOf(x.parent).Comparable() {
		x.both.of = x.parent
	}
	g.mu.Lock()
	g.endings[x] = cancel
	g.mu.Unlock()
	if e := g.fate.Load(); e != nil {
		cancel(e)
	}
}

// unwatch gives up the ending.
func (x *call) unwatch() {
	if x.both.Context == nil {
		return
	}
	x.group.mu.Lock()
	cancel := x.group.endings[x]
	delete(x.group.endings, x)
	x.group.mu.Unlock()
	cancel(nil)
	x.both = ending{}
}

// refuse keeps the first mistake.
func (x *call) refuse(err error) {
	if x.err == nil {
		x.err = err
	}
}

// sized sets the number of bytes by which choose decides.
func (x *call) sized(n int) *call {
	x.bytes = n
	return x
}

var errNoOperator = fmt.Errorf("%w: no operator", efa.ErrInvalid)

// combining sets the operator; ok is false if it is nil.
func (x *call) combining(op combiner, ok bool) {
	if !ok {
		x.refuse(errNoOperator)
	}
	x.op = op
}

// rooted checks the root and reports whether this rank is it.
func (x *call) rooted(root int) bool {
	if root < 0 || root >= len(x.peers) {
		x.refuse(fmt.Errorf("%w: root %d of %d ranks", efa.ErrInvalid, root, len(x.peers)))
	}
	x.root = root
	return root == x.rank
}

// counted checks the counts of a buffer of n elements and sets its layout.
func (x *call) counted(l *layout, counts []int, n int) {
	if err := l.setCounts(counts, len(x.peers), n); err != nil {
		x.refuse(err)
	}
}

// part checks that a buffer is as long as the layout has it for this rank.
func (x *call) part(name string, n int, l *layout) {
	if x.err == nil && n*l.elem != l.size(x.rank) {
		x.refuse(fmt.Errorf("%w: %s has %d elements, counts say %d", efa.ErrInvalid, name, n, l.size(x.rank)/l.elem))
	}
}

// times checks that a buffer is size times as long as another.
func (x *call) times(long string, n int, short string, m int) {
	if p := len(x.peers); n%p != 0 || n/p != m {
		x.refuse(fmt.Errorf("%w: %s has %d elements, which is not %d for each of %d ranks as %s has it", efa.ErrInvalid, long, n, m, p, short))
	}
}

// as checks that two lengths are equal.
func (x *call) as(name string, n int, other string, m int) {
	if n != m {
		x.unlike(name, n, other, m)
	}
}

func (x *call) unlike(name string, n int, other string, m int) {
	x.refuse(fmt.Errorf("%w: %s has %d elements, %s %d", efa.ErrInvalid, name, n, other, m))
}

// apart checks that two buffers are the same, have nothing in common, or that
// one is its part of the other, if there is a rank to have one.
func (x *call) apart(part, whole []byte, rank int) {
	if overlap(part, whole) {
		x.within(part, whole, rank)
	}
}

func (x *call) within(part, whole []byte, rank int) {
	if x.err != nil {
		return
	}
	if rank >= 0 {
		whole = x.lay.block(whole, rank)
	}
	if !same(part, whole) {
		x.refuse(fmt.Errorf("%w: in and out overlap", efa.ErrInvalid))
	}
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
	x.parent, x.span = x.family.cfg.Tracer.Start(x.parent, x.kind.String(),
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(
			AttrAlgorithm.String(x.alg.name),
			AttrBytes.Int(max(len(x.in), len(x.out))),
			AttrRanks.Int(len(x.peers)),
			AttrRank.Int(x.rank),
			AttrContext.Int(int(x.group.id)),
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
