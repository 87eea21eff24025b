package telemetry

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// life is a peer or the endpoint itself. Its span begins when it does, so that
// other spans can lie within it.
type life struct {
	s    *Source
	name string
	span uint64
	addr wire.RawAddr
	path uint8
	id   identity
	real trace.Span
	ctx  context.Context // with the span in it

	began      clock.Time
	shaken     []shake // HANDSHAKEs, sent and received
	received   bool
	version    uint32 // what HANDSHAKE says
	hostID     uint64 // and that; 0: none
	features   uint64
	backingOff bool
	since      clock.Time // backingOff
	planned    time.Duration
	backoffs   int64
	backoff    time.Duration // all of it
	rnr        int64
	incomplete bool
}

type shake struct {
	at   clock.Time
	name string
}

// life takes a record about a peer or the endpoint.
func (s *Source) life(k trail.Kind, r *trail.Record) {
	switch k {
	case trail.EndpointBegin:
		s.self = s.born(context.Background(), spanEndpoint, r)
		return
	case trail.PeerBegin:
		if len(s.lives) < maxLives {
			s.lives[r.Span] = s.born(s.context(), spanPeer, r)
		}
		return
	default:
	}
	l := s.lifeOf(r.Span)
	if l == nil {
		return
	}
	switch k {
	case trail.PeerEnd:
		delete(s.lives, r.Span)
		l.end(r.At, s.failure(r))
	case trail.EndpointEnd:
		s.endOps() // it crashed, else there are none
		s.self = nil
		l.end(r.At, s.failure(r))
	default:
		l.happened(k, r)
	}
}

func (s *Source) context() context.Context {
	if s.self == nil {
		return context.Background()
	}
	return s.self.ctx
}

// failure is the error of a record of an end.
func (s *Source) failure(r *trail.Record) error {
	if trail.Outcome(r.Code) == trail.OK {
		return nil
	}
	if err := s.log.Err(r.B); err != nil {
		return err
	}
	return errUnknown
}

// born begins a life's span.
func (s *Source) born(ctx context.Context, name string, r *trail.Record) *life {
	l := &life{s: s, name: name, span: r.Span, began: r.At}
	l.ctx, l.real = s.c.tracer.Start(ctx, name, trace.WithTimestamp(s.c.wall(r.At)))
	return l
}

func (l *life) happened(k trail.Kind, r *trail.Record) {
	switch k {
	case trail.Address:
		l.address(r)
	case trail.Replaces:
		if former := l.s.lives[r.A]; former != nil {
			l.real.AddLink(trace.Link{SpanContext: former.real.SpanContext()})
		}
		l.event(r.At, eventReplaces)
	case trail.HandshakeSent:
		l.shake(r.At, eventHandshakeSent)
	case trail.HostID:
		l.hostID = r.A
		l.real.SetAttributes(attrHostID.String(hostID(r.A)))
	case trail.HandshakeReceived:
		l.received, l.features, l.version = true, r.A, r.B
		l.shake(r.At, eventHandshakeReceived)
		l.handshake(r.At, nil)
	case trail.BackoffBegin:
		l.backingOff, l.since, l.planned = true, r.At, time.Duration(r.A)
	case trail.BackoffEnd:
		l.endBackoff(r.At)
	case trail.Probe:
		l.event(r.At, eventProbe)
	case trail.Pressure:
		l.event(r.At, eventPressure, attrBytes.Int64(int64(r.A)))
	case trail.Relieved:
		l.event(r.At, eventRelieved, attrBytes.Int64(int64(r.A)))
	default: // an operation's
	}
}

// trouble takes records that operations can have, too.
func (l *life) trouble(k trail.Kind, r *trail.Record) {
	switch k {
	case trail.RNR:
		l.rnr++
	case trail.Restarted:
		l.event(r.At, eventRestarted)
	default:
	}
}

func (l *life) event(at clock.Time, name string, attrs ...attribute.KeyValue) {
	l.real.AddEvent(name, trace.WithTimestamp(l.s.c.wall(at)), trace.WithAttributes(attrs...))
}

// address assembles the raw address; the last part completes it.
func (l *life) address(r *trail.Record) {
	if r.B >= wire.RawAddrLen/8 {
		return
	}
	binary.LittleEndian.PutUint64(l.addr[8*r.B:], r.A)
	l.path = r.Code
	if r.B < wire.RawAddrLen/8-1 {
		return
	}
	if l.name == spanEndpoint {
		l.s.connID = l.addr.ConnID()
	}
	l.real.SetAttributes(l.s.attributes(l)...)
}

// attributes are those of every span of the endpoint's with the peer, if there is one.
func (s *Source) attributes(peer *life) []attribute.KeyValue {
	a := make([]attribute.KeyValue, 0, 24)
	a = append(a, attrSystem.String(system), attrClientID.String(connID(s.connID)))
	a = append(a, named(s.name)...)
	if peer != nil && peer.name == spanPeer {
		a = append(a,
			attrPeerConnID.String(connID(peer.addr.ConnID())),
			attrPeerAddress.String(netip.AddrFrom16(peer.addr.GID()).String()),
			attrPeerPort.Int(int(peer.addr.QPN())),
			attrPeerURI.String(peer.addr.URI(s.c.kindOf(peer.path))))
		a = append(a, peer.who()...)
	}
	return a
}

// identity is what the address vector knows a peer by.
type identity struct {
	known  bool
	handle uint64
	name   string
}

// who describes the peer by what the address vector has now, or, if it was removed, had at its
// last span.
func (l *life) who() []attribute.KeyValue {
	if l.s.peer != nil {
		if handle, name, ok := l.s.peer(l.addr); ok {
			l.id = identity{true, handle, name}
		}
	}
	if !l.id.known {
		return nil
	}
	a := []attribute.KeyValue{attrPeerHandle.Int64(int64(l.id.handle))}
	if l.id.name != "" {
		a = append(a, attrPeerName.String(l.id.name))
	}
	return a
}

// kindOf is the kind of the device of a path.
func (c *Collector) kindOf(path uint8) string {
	if int(path) < len(c.cfg.Devices) {
		return c.cfg.Devices[path].Kind
	}
	return c.cfg.Device.Kind
}

func connID(id uint32) string { return fmt.Sprintf("%08x", id) }

func hostID(id uint64) string { return fmt.Sprintf("%016x", id) }

func (l *life) shake(at clock.Time, name string) {
	l.event(at, name)
	l.shaken = append(l.shaken, shake{at, name})
}

// handshake makes a span of the time until the peer's HANDSHAKE, or until it was
// clear that none would come.
func (l *life) handshake(at clock.Time, err error) {
	_, span := l.s.c.tracer.Start(l.ctx, spanHandshake, trace.WithTimestamp(l.s.c.wall(l.began)),
		trace.WithAttributes(l.s.attributes(l)...))
	for _, x := range l.shaken {
		span.AddEvent(x.name, trace.WithTimestamp(l.s.c.wall(x.at)))
	}
	if l.received {
		span.SetAttributes(attrFeatures.String(fmt.Sprintf("%#x", l.features)), attrDeviceVersion.Int64(int64(l.version)))
		if l.hostID != 0 {
			span.SetAttributes(attrHostID.String(hostID(l.hostID)))
		}
	}
	fail(span, err)
	span.End(trace.WithTimestamp(l.s.c.wall(at)))
}

// endBackoff makes a span of a back-off, if it is sampled or took long.
func (l *life) endBackoff(at clock.Time) {
	if !l.backingOff {
		return // its beginning is missing
	}
	began, took := l.since, at.Sub(l.since)
	l.backingOff = false
	l.backoffs++
	l.backoff += took
	c := l.s.c
	if !c.slow(took) && !c.ratio.takes(mix(mix(uint64(l.s.connID))^l.span^uint64(began))) {
		return
	}
	_, span := c.tracer.Start(l.ctx, spanBackoff, trace.WithTimestamp(c.wall(began)), trace.WithAttributes(l.s.attributes(l)...),
		trace.WithAttributes(attrPlanned.Float64(l.planned.Seconds())))
	span.End(trace.WithTimestamp(c.wall(at)))
}

// end ends the life's span.
func (l *life) end(at clock.Time, err error) {
	if l.backingOff {
		l.endBackoff(at)
	}
	if l.name == spanPeer && !l.received {
		l.handshake(at, err)
	}
	if l.backoffs > 0 {
		l.real.SetAttributes(attrBackoffCount.Int64(l.backoffs), attrBackoffWait.Float64(l.backoff.Seconds()))
	}
	if l.rnr > 0 {
		l.real.SetAttributes(attrRNRCount.Int64(l.rnr))
	}
	if l.incomplete {
		l.real.SetAttributes(attrIncomplete.Bool(true))
	}
	fail(l.real, err)
	l.real.End(trace.WithTimestamp(l.s.c.wall(at)))
}

// fail sets the error of a span, if there is one.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(attrErrorType.String(ope.ErrorType(err)))
		span.SetStatus(codes.Error, err.Error())
	}
}

// endLives ends peers and the endpoint if they have not ended.
func (s *Source) endLives() {
	var left []*life
	for _, l := range s.lives {
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b *life) int { return cmp.Compare(a.span, b.span) })
	if s.self != nil {
		left = append(left, s.self)
	}
	for _, l := range left {
		l.incomplete = true
		l.end(s.at, nil)
	}
	clear(s.lives)
	s.self = nil
}
