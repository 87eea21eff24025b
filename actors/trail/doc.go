// Package trail is what the actors of an endpoint leave behind of each operation's
// life: records of fixed size in a ring that another goroutine reads (runtime/trace).
// It says what happened, in the protocol's words; what is made of it (spans, a
// drawing) is for the reader to decide.
//
//	operation --+                       +--> telemetry: OpenTelemetry spans
//	peer -------+--> Log --> trace.Ring +--> tests: lists of events
//	endpoint ---+
//
// A nil *Log is tracing switched off: its methods return at once.
//
// A life is named by its span, a number that is never used twice in one Log:
// an operation that the application asked for has one from its request on; a message
// or an access of a peer's from its first packet on, and a message joins the receive
// that matched it ([Matched]); peers and the endpoint have one each.
//
// Start reading at kind.go.
package trail
