// Package trail holds the records that an endpoint's actors write of each operation's
// life: records of fixed size ([Record]) in a [Ring] that another goroutine reads. A
// record says what happened, in the protocol's words; what to make of it (spans, a
// drawing) is for the reader to decide.
//
//	operation --+                       +--> telemetry: OpenTelemetry spans
//	peer -------+--> Log --> Ring +--------> tests: lists of events
//	endpoint ---+
//
// With a nil *Log tracing is switched off: its methods return at once.
//
// A life is identified by its span, a number that is never used twice in one Log. An
// operation of the application has a span from its request on; a message or an
// access of a peer has one from its first packet on, and a message joins the receive
// that matched it ([Matched]); peers and the endpoint have one each.
//
// Start reading at kind.go.
package trail
