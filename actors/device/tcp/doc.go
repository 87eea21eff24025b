// Package tcp is a device driver for hosts without EFA: queue pairs reach each other over
// TCP connections, plain ones within a host, or secured (Config.Credentials).
//
//	GID   the host's IP address, IPv4-mapped if need be (RFC 4291, 2.5.5.2)
//	QPN   the TCP port that the queue pair listens on
//
// # Connections
//
// A queue pair that has something to send dials, and states in a preamble its own address,
// the one it dials, MTU, lane and session. A session is lane 0, for packets, statuses and
// RDMA of up to 4 KiB, and Config.Lanes more for other RDMA. Requests of either side go
// over any session between the two, answers over the lane of their request. Numbers are
// little-endian.
//
//	greeting  0 "eftc" | 4 version 3 | 6 verdict | 7 0: the accepting side's, on loopback
//	          without credentials
//	preamble  0 "eftc" | 4 version 3 | 6 flags: 1 reply, 2 alive, 4 Q_Key | 7 verdict
//	          8 lane | 9 lanes | 12 mtu | 16 session | 24 from GID | 40 to GID | 56 from QPN
//	          58 to QPN | 60 Q_Key of from | 64 latest session taken of to (alive: it goes on)
//	          72 the Q_Key that to should have | 76 0
//	frame     0 kind | 1 flags: 1 immediate, 2 of a message; status | 2 0 | 4 length | 8 token, then
//	  send    16 qkey | 20 immediate, or the msg_id | 24 packet
//	  read    16 qkey | 20 0 | 24 address | 32 rkey             data, unless refused; status
//	  write   16 qkey | 20 immediate | 24 address | 32 rkey | 40 bytes
//	  data    16 bytes
//	  status, bye (UnknownPeer: the other side was sent away), ping, pong: nothing more
//
// A status is the receiver's: OK, the packet lies in a posted slot or the bytes in their
// region; RNR, BadAddress or BadDestQPN. If a region is closed during the transfer, zeroes
// (read) or nothing (write) replace the rest, and BadAddress follows.
//
// # Failure and closing
//
// A connection that fails ends both sessions between the two; operations in progress end
// with a status of which Gone is true. A connection has failed if it is silent for
// Config.Timeout, though a ping was sent after a quarter of it: at most 1.1 times the
// timeout after the last byte, given that Poll or Arm is called. Other lanes than 0 are
// pinged only while they carry a request. While the other host's kernel takes bytes and
// more are waiting, the path is slow, not dead. A bye on all lanes ends sessions with
// BadDestQPN.
//
// If a session that was used fails, the queue pair is dialed once more. If there is none,
// or one with another Q_Key, OpGone is reported. After a bye on all sessions of a queue pair
// OpGone is reported with Left, behind everything that it has sent. Bytes on a session that has ended for
// the other side are never taken: a new preamble ends older sessions, except one that
// crossed it. The sessions that a queue pair dials have rising numbers below a random
// high half, so a preamble that was delayed until after a later one is refused.
//
// # Who gets in
//
// With credentials, certificates say who a peer is; without them, on loopback, the system says
// whose socket it has (peeruid.go). A host that names wrong keys is cut off (keyguard.go).
// Connections without a session give way to new ones, the oldest first (listen.go).
//
// # Design choices
//
//   - On Linux the shard makes all system calls itself, none of which waits, so Go's scheduler takes
//     no part; elsewhere, and with the build tag netpoll, goroutines make them (net_poller.go, stream_poller.go). An idle Poll checks the sockets (0.2 us) once in 32 calls, once in 4 while
//     requests are in progress.
//   - A doorbell is one writev. Packets are copied at post (CopiesAtPost), but for a payload
//     that stays until the doorbell: it is written from its place, and copied if the socket has no
//     room. RDMA is not copied. Regions are held during a call only, so closing one waits for nothing.
//   - The statuses that a Poll produces are sent with the next Poll, Doorbell or Arm. Those
//     of packets that were taken wait for eight polls, or until there are sixteen, for a
//     packet in their direction, since a write of their own costs more than all else that a
//     short message needs. So a shard that stops polling must call Arm.
//   - Buffer sizes are left to the kernel, which adapts them to the path.
//   - Requests are bounded by the depth of the other side's send queue; the session of a
//     peer that asks for more, or for pongs without end, and does not read, is ended. That
//     bounds the memory of a lane, without a deadlock. Each connection with a session has a
//     buffer of 64 KiB and a packet.
//
// On loopback, two polling threads (go test -bench 'PingPong|Packets|Read|Socket|Idle'): 8
// bytes one way 6 to 8 us; packets 1.0 us each of 8 bytes, 1.4 to 3 GB/s of 8760; RDMA as
// fast as a bare socket; a Poll that finds nothing 17 ns.
//
// Start reading at frame.go and preamble.go; then port.go and lane.go for how bytes move,
// request.go for the two sides of a request, dial.go, listen.go, handshake.go and session.go for
// sessions, net_epoll.go and net_poller.go for what the system does.
package tcp
