// Package traffic tests a device between processes on bad networks: numbered packets
// and RDMA whose bytes follow from their numbers, in all directions, for a number of
// requests or until stopped; afterwards the packets that arrived are compared with
// the completions of their senders.
//
//	test                                    hosts, one process each
//	Start, Begin(...)   -- JSON lines -->   Serve: a queue pair, and a load for each other host
//	Stop, Report, Check <-- JSON lines --   packets sent and received
//
// The rules that [Check] asserts are the contract of a reliable device: a packet whose
// send completed has arrived, none arrives twice or changed, memory holds the bytes of
// the last write, nothing of a former session arrives later, and no request waits for
// longer than the bound.
//
// Start reading at serve.go; process.go is the test's side.
package traffic
