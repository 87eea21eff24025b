// Package direct is what an endpoint does that speaks no protocol: packets without
// headers, no handshake, and one request of the device for each operation (libfabric's
// efa-direct). A device of any kind will do, and a libfabric that speaks efa-direct is a
// peer like any other.
//
//	requests --> Port --> line of operations --> device.Queue      send.go, rma.go
//	packets  --> Port --> receives, first come first served        recv.go
//
// A Port has operations (op.go) and a directory of the addresses in the address vector
// (places.go). What it cannot do it refuses: refuse.go. How operations end before the device
// says so is in end.go.
//
// Invariant: the device has no more receive slots than receives wait for a message, but for
// those of receives that were canceled.
package direct
