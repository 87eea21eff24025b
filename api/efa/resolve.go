package efa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// Address exchange is the caller's business: an [Address] is one line of text. For
// programs that have nothing better, Serve and Resolve pass addresses over TCP.

// maxAddressText bounds what Resolve reads from the other side.
const maxAddressText = 4096

// Serve answers everyone who connects to l with the endpoint's address, until ctx
// ends or l is closed: then it returns nil. After the end of the endpoint it
// returns ErrClosed to the caller at the next connection. It closes l.
func (e *Endpoint) Serve(ctx context.Context, l net.Listener) (err error) {
	defer formed("serve address", &err)
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept tells
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if err := e.live(); err != nil {
			_ = c.Close() // there is nothing to tell
			return err
		}
		// A client that does not read must not hold up the others for long.
		_ = c.SetDeadline(clock.Deadline(time.Second))
		_, _ = io.WriteString(c, e.Address().String()+"\n") // its loss
		_ = c.Close()
	}
}

// Resolve asks the program that Serves at the given TCP address, and inserts the
// address that it answers.
func (av *AddressVector) Resolve(ctx context.Context, hostport string) (_ Addr, err error) {
	defer formed("resolve "+hostport, &err)
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", hostport)
	if err != nil {
		return NoAddr, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(c, maxAddressText))
	if err != nil {
		if ctx.Err() != nil {
			err = contextError(ctx, ctx.Err())
		}
		return NoAddr, err
	}
	n := len(text)
	if n == 0 || text[n-1] != '\n' {
		return NoAddr, fmt.Errorf("%w: it did not answer with an address", ErrInvalid)
	}
	a, err := ParseAddress(string(text[:n-1]))
	if err != nil {
		return NoAddr, err
	}
	return av.Insert(a)
}
