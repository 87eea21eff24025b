// Package kv is a key-value cache that lies in the memory of all ranks of a job and is
// used by one-sided operations alone.
//
// A key has one place: a rank, and an entry in that rank's memory, both of its hash. Two
// keys with one place displace each other; it is a cache.
//
//	0         8          16        24      26      28
//	+---------+----------+---------+-------+-------+-----+-------+
//	| version | checksum | version | bytes | bytes | key | value |
//	| (lock)  | of what  | of this | of    | of    |     |       |
//	|         | follows  | value   | key   | value |     |       |
//	+---------+----------+---------+-------+-------+-----+-------+
//
// Get reads an entry with one read. Others may write meanwhile, and a read has no
// order within: its first and last bytes say nothing about those between, so version
// words around the value, as a sequence lock has them, would prove nothing. The
// checksum does: a torn value does not match, and is read again.
//
// Put locks the entry by a compare-and-swap that makes its even version odd, writes, and
// stores the next even version. Writes and atomics have no order either: it stores when
// the write was delivered. So versions of an entry count up, and a Get that begins when
// a Put has returned sees that one's value or a later one. A rank that dies while it
// holds a lock blocks the entry for writers; the job is lost then, and so the cache goes.
//
// No Go code touches the memory that others use: local entries are accessed the
// same way.
package kv
