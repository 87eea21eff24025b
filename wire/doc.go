// Package wire encodes and decodes every packet type of the EFA RDM protocol
// version 4. It imports the standard library alone and does no I/O.
//
// A datagram carries one packet. Every packet starts with the base header
// (§1.3, Table 1.3); a REQ packet (§3.1), the first of an operation, goes on
//
//	+------+-----------------+-----------+------------------+----------+------+
//	| base | mandatory header| rma_iov[] | optional headers | read_iov | data |
//	+------+-----------------+-----------+------------------+----------+------+
//	  4 B    by packet type    one-sided   raw address,       LONGREAD,
//	                           types       CQ data, connid    RUNTREAD
//
// There is one struct per packet family: the tagged and untagged variants of a
// message share one (Tagged), and so do the plain and the delivery-complete
// ones (DC). Each has
//
//	Type() Type                // the packet type that the fields select
//	Append(b []byte) []byte    // allocates only if b lacks the room
//	Read(v *View) (int, error) // returns the header's length: b[n:] is the data
//
// A receiver opens a packet once, when it arrives, asks the View for the type and for the
// sender's connid, and then reads the packet into the struct of its type.
//
// Invariants:
//
//   - Append writes all padding as zero. It writes the header alone, the data
//     follows it or comes from another buffer.
//   - Open and Read never panic, do not allocate, also not for an error, and leave the
//     struct alone on error. They read every byte of b at most once, so b may lie in
//     memory that another process changes meanwhile: what was checked is what is returned.
//   - They judge form, not meaning. A seg_length beyond the datagram, an unknown
//     atomic operation, a zero recv_length or a foreign id is for the receiver to judge.
//   - Read of what Append wrote gives the same struct.
//
// # Byte order
//
// The specification gives C types and no byte order. The packets are packed C
// structs in the byte order of the host that sends them, and every host with an
// EFA device (x86-64, arm64) is little-endian, so all integers are
// little-endian here. The GID of a raw address alone is in network order.
//
// # Where the specification errs
//
// Layouts follow what libfabric's releases 1.10 to 2.6 send. Where this departs
// from the specification the type's comment says so: READRSP, MediumRTM,
// RuntReadRTM, RTR, RTA, Options, Handshake, FlagReadNACK, FlagRMA. Type ids
// that libfabric's header reserves but that no release has ever sent (READ_RTR,
// RUNTCTS_*, RUNTREAD_RTW) have no layout anywhere; they have a name here, and
// parsing one gives ErrNotSupported.
//
// Start reading at types.go, then cts.go for a small packet, options.go and
// eager.go for a REQ packet, and view.go for how a packet is opened and decoded. A file
// has the packets of one subprotocol: eager.go, medium.go, longcts.go, longread.go (with
// runting read), rtr.go (emulated reads), rta.go (atomics).
package wire
