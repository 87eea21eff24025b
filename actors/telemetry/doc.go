// Package telemetry makes OpenTelemetry traces and metrics of what endpoints do.
//
//	shard --> trail.Log --> ring --> Collector --> op, life --> spans
//	                                     '-------> durations
//	endpoint.Sample, once a collection ----------> counters
//
// A shard only writes records into a ring. A [Collector] reads the rings of a fabric's
// endpoints on a goroutine of its own (in a simulation the shard's), follows each
// operation's life in its records, and makes a span of it when it is over, with the
// times that the shard noted. So nothing of OpenTelemetry is on a shard's way, and what
// is not sampled costs a few words of bookkeeping.
//
// Both sides of an operation derive the same trace from its [Key]: connids and the id
// that stands in its packets anyway. Nothing is added to the wire.
//
// What is followed is bounded: a ring that is full drops records, and the spans of who
// was under way then say that they are incomplete; of too many operations in progress
// the oldest are let go.
//
// Metrics count what must be exact on the shard, in plain words, and copy them once a
// collection. Only the duration of operations comes from the records.
//
// Start reading at source.go; names.go has every name that goes out, in the words of
// docs/telemetry.md.
package telemetry
