// Package golden holds packets that real libfabric sent, for tests of other
// packages: to decode and encode them, and to replay whole scenarios.
//
// In each scenario two processes, A (actor) and B (passive), ran known
// operations through libfabric's EFA provider on a software EFA device (MTU
// 8760, x86-64). Every work request that they posted is a Packet, in posting
// order over both. testdata holds one capture per libfabric release, one JSON
// object per line: a scenario's line, then its packets. README.md describes the format
// for those who bring captures of their own.
//
// Operations are written `[B:]name:len[,flag...]`; with B: the passive side
// acts. Byte i of the data of send, tsend, write and read is (i + Seed) % 251.
// Of atomics len counts elements; element i of the operand is Seed + i, the
// target was 1000 + i before, and so is the comparand, in the type that is named
// (uint64 by default). Flags: dc = delivery complete, data = with CQ data,
// inject, iov2 = two source pieces, riov2 = two remote pieces (the first third
// and the rest, of atomics two halves), unexp = receive posted late, desc =
// buffer registered by the application, tag=N (0x1122334455667788 by default),
// fail = an error completion is expected; mrclose = the region of the buffer is closed under way, so that
// the message is given up, norecv = no receive is posted, fill and stall = the receiver stands still and
// small messages take its places, so that packets are posted again and again. Driver options in Args: -u, B doesn't
// know A's address; -p L,S, operations were left outstanding first, so that ids
// differ; -H, homogeneous peers; -z and -Z, zero-copy receive.
//
// Some padding is uninitialised memory of the capturing process and means
// nothing: in HANDSHAKE after connid, device_version and p2p_supported, in
// CTSDATA after connid, in ATOMRSP reserved, in WRITE_RTA the word after
// atomic_op, in the DC headers, and connid words without the CONNID flag.
package golden
