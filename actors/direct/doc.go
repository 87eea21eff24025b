// Package direct is what an endpoint does that speaks no protocol: packets without
// headers, no handshake, and one request of the device for each operation (libfabric's
// efa-direct). A device of any kind will do, and a libfabric that speaks efa-direct is a
// peer like any other.
//
//	requests --> Port --> line of operations --> device.Queue      send.go
//	packets  --> Port --> receives, first come first served        recv.go
//
// Start reading at port.go: the Port, its operations, and how they end before the device says
// so. av.go is its directory of the addresses in the address vector. send.go also says which
// requests a Port refuses, since a device has no request for them.
//
// Invariant: the device has no more receive slots than receives wait for a message, but for
// those of receives that were canceled.
package direct
