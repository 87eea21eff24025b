// Package snapshot says what an endpoint is doing at one moment: its peers, its
// operations in progress and what each waits for, its queues and counters. Plain
// data, made on the endpoint's shard and read anywhere; as JSON, durations are
// nanoseconds.
package snapshot
