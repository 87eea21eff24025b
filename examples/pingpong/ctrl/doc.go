// Package ctrl is fi_pingpong's control protocol: a TCP connection beside the
// fabric over which two ping-pong programs find each other and keep in step. It
// was taken down from the tool of libfabric 1.17; speaking it, an efactor program
// can be the tool's partner.
//
//	client                                       server
//	   |                                            |  listens on port 47592
//	   | <----------------- name ------------------ |
//	   | ------------------ name -----------------> |
//	   |                                            |
//	   |   for each size:                           |
//	   | ----------------- "q\0" -----------------> |  Sync
//	   | <---------------- "a\0" ------------------ |
//	   |  ~ ~ ~ ~ ~  messages on the fabric  ~ ~ ~  |
//	   | -------- count, decimal in 10 bytes -----> |  Count
//	   | <-------------- "cnt ok\0" --------------- |
//	   |                                            |
//	   |  ~ ~ ~ ~ ~  "fin\0" both ways  ~ ~ ~ ~ ~ ~ |  on the fabric
//	   | <---------------- close -----------------> |
//
// A name is an endpoint's address: its length (4 bytes, big-endian), the format of
// the address (4 bytes, in the order of the host, which is little-endian on all
// that have EFA), and the address. The sizes and the number of messages are not
// exchanged: both sides must have been started with the same.
//
// Messages of the other side are checked, and never waited for without a limit: an
// exchange takes at most Conn.Patience, unless its context ends it earlier. While
// messages are on the fabric [Conn.Watch] reports when the partner goes away.
//
// Start reading at [Conn].
package ctrl
