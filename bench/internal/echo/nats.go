package echo

import (
	"context"
	"errors"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const subject = "echo"

// serveNATS has NATS's server and the responder in one process, which is the best case:
// the responder's connection is within it.
func serveNATS(ctx context.Context, _ Plan, ready func(string)) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		return errors.New("NATS's server does not start")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	ready(s.ClientURL())
	<-ctx.Done()
	return nil
}

type natsCaller struct{ conn *nats.Conn }

func dialNATS(_ context.Context, _ Plan, addr string) (caller, error) {
	conn, err := nats.Connect(addr)
	return &natsCaller{conn}, err
}

func (c *natsCaller) call(_ context.Context, question []byte) ([]byte, error) {
	m, err := c.conn.Request(subject, question, patience)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

func (c *natsCaller) close() error {
	c.conn.Close()
	return nil
}
