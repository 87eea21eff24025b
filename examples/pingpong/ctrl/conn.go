package ctrl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Patience is how long an exchange waits for the partner unless Conn.Patience says
// otherwise. Names take longest: the tool looks for providers before it sends its
// own.
const Patience = 20 * time.Second

// Errors of the partner.
var (
	// ErrGone: it closed the connection, or died.
	ErrGone = errors.New("the partner closed the control connection")
	// ErrProtocol: it speaks something else, or at the wrong time.
	ErrProtocol = errors.New("the partner does not follow fi_pingpong's control protocol")
	// ErrSilent: it said nothing for as long as we had patience.
	ErrSilent = errors.New("the partner does not answer")
)

// Conn is one side of a control connection. It is for one goroutine.
type Conn struct {
	// Patience is how long an exchange waits for the partner.
	Patience time.Duration

	conn   net.Conn
	r      *bufio.Reader
	server bool
}

// NewConn speaks the protocol over c, in the server's place or the client's.
func NewConn(c net.Conn, server bool) *Conn {
	return &Conn{Patience: Patience, conn: c, r: bufio.NewReaderSize(c, 4096), server: server}
}

// Server reports whether this is the server's side. The client sends the first
// message.
func (c *Conn) Server() bool { return c.server }

// Partner is the other side's network address.
func (c *Conn) Partner() net.Addr { return c.conn.RemoteAddr() }

// Close closes the connection, which ends the protocol for the partner.
func (c *Conn) Close() error { return c.conn.Close() }

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// step runs one exchange, which ends when the patience or ctx does. After a
// failure the connection is good for nothing but Close.
func (c *Conn) step(ctx context.Context, what string, exchange func() error) error {
	limit, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	stop := context.AfterFunc(limit, func() { _ = c.conn.SetDeadline(longAgo) })
	err := exchange()
	if !stop() && err == nil {
		err = os.ErrDeadlineExceeded // came too late: the deadline is set, or will be
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w for %v", ErrSilent, c.Patience)
	case gone(err):
		err = ErrGone
	}
	return fmt.Errorf("%s: %w", what, err)
}

// gone reports whether err means that there is no partner any more.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// write sends b. Each part of the protocol is one write, since the tool takes
// what a single read gives it.
func (c *Conn) write(b []byte) error {
	_, err := c.conn.Write(b)
	return err
}

// read fills b.
func (c *Conn) read(b []byte) error {
	_, err := io.ReadFull(c.r, b)
	return err
}

// expect reads exactly what the partner has to say.
func (c *Conn) expect(want string) error {
	b := make([]byte, len(want))
	if err := c.read(b); err != nil {
		return err
	}
	if string(b) != want {
		return fmt.Errorf("%w: it sent %q, want %q", ErrProtocol, b, want)
	}
	return nil
}
