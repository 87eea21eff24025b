// Package telemetry makes OpenTelemetry traces and metrics of endpoints' operations.
//
//	shard --> trail.Log --> ring --> Collector --> op, life --> spans
//	                                     '-------> durations
//	endpoint.Sample, once a collection ----------> counters
//
// A shard only writes records into a ring. A [Collector] reads the rings of a fabric's
// endpoints on a goroutine of its own (in a simulation the shard's), follows each
// operation by its records, and makes a span when it is over, with the times that the
// shard noted. So no OpenTelemetry code runs on a shard, and operations that are not
// sampled cost a few words of bookkeeping.
//
// Both sides of an operation derive the same trace from its [Key]: the connids and
// the id that its packets carry anyway. Nothing is added to the wire.
//
// Memory is bounded: a ring that is full drops records, and the spans of operations in
// progress then say that they are incomplete; of too many operations in progress the
// oldest are dropped.
//
// Metrics come from plain counters on the shard, copied once per collection. Only the
// duration of operations comes from the records.
//
// Start reading at source.go, then op.go (an operation's events), span.go and life.go (spans
// of operations, of peers and of the endpoint), metrics.go and instruments.go; names.go has every exported name, as documented in
// docs/telemetry.md.
package telemetry
