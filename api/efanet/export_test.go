package efanet

import (
	"context"
	"net"
)

// Unread is how many messages wait at a connection's endpoint that nobody has received.
func Unread(ctx context.Context, c net.Conn) (int, error) {
	s, err := c.(*Conn).hub.ep.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	return s.Queues.Unexpected, nil
}
