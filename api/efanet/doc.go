// Package efanet is net.Conn and net.Listener over efactor endpoints, so that net/http, gRPC,
// net/rpc and whatever else takes a listener and a dialer runs over shared memory, EFA or the tcp
// device by changing two lines:
//
//	l, err := efanet.Listen(ctx, "")                    // instead of net.Listen
//	err = http.Serve(l, handler)
//
//	d := &efanet.Dialer{}                               // in another process
//	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
//	conn, err := efanet.Dial(ctx, l.Addr().String())    // as grpc.WithContextDialer has it
//
// All connections of a listener are on one endpoint, and those that a process dials on another.
// docs/efanet.md has the protocol between the two sides, and what it promises.
//
// Start reading at conn.go, then frame.go for the frames between two sides, reader.go and
// writer.go for the two directions of a connection, hub.go for the connections of an endpoint,
// and peer.go for what its peers ask.
package efanet
