// Package ring holds the bounded queues between application goroutines and a shard:
// [MPSC] carries requests in, [SPSC] carries completions out. Neither locks, nor
// allocates after it was made; both report when they are full.
package ring
