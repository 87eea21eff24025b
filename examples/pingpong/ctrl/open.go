package ctrl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// DefaultPort is the server's default port.
const DefaultPort = 47592

// Network is the version of IP; the tool uses IPv4 unless it is given -6.
type Network string

// The networks.
const (
	AnyIP Network = "tcp"
	IPv6  Network = "tcp6"
)

// Listener waits for a client.
type Listener struct{ l net.Listener }

// Listen opens the server's port on host, "" for all addresses of this one. Port
// 0 takes any free port.
func Listen(ctx context.Context, network Network, host string, port int) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, string(network), net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("control port %d is in use, perhaps by another server; choose another one with -B: %w", port, err)
	case err != nil:
		return nil, fmt.Errorf("control port %d: %w", port, err)
	}
	return &Listener{l}, nil
}

// Port is the number of the port.
func (l *Listener) Port() int {
	a, ok := l.l.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return a.Port
}

// Accept waits for one client, for as long as ctx lasts, and stops listening.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.l.Close() })
	c, err := l.l.Accept()
	stop()
	_ = l.l.Close() // no further connection is accepted
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = c.Close()
		}
		return nil, fmt.Errorf("wait for a client: %w", context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("wait for a client: %w", err)
	}
	return NewConn(c, true), nil
}

// Close stops listening.
func (l *Listener) Close() error { return l.l.Close() }

// Dial connects to the server at host, from the port source if that is not 0.
func Dial(ctx context.Context, network Network, host string, port, source int) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var d net.Dialer
	if source != 0 {
		d.LocalAddr = &net.TCPAddr{Port: source}
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	c, err := d.DialContext(ctx, string(network), addr)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no server at %s; start one there with -server, then try again: %w", addr, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("source port %d is in use; choose another one with -B: %w", source, err)
	case err != nil:
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return NewConn(c, false), nil
}
