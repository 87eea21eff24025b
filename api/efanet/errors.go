package efanet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// network is the name of addresses and errors here.
const network = "efa"

// refusal is why a connection was not accepted.
type refusal uint64

const (
	refusedNobody  refusal = 1 // nobody listens
	refusedBacklog refusal = 2
	refusedMany    refusal = 3
)

func (r refusal) Error() string {
	why := "for a reason that this release does not know"
	switch r {
	case refusedNobody:
		why = "nobody listens at the endpoint"
	case refusedBacklog:
		why = "its backlog is full"
	case refusedMany:
		why = "it has as many connections as it takes"
	}
	return fmt.Sprintf("%v: %s", syscall.ECONNREFUSED, why)
}

// Unwrap is ECONNREFUSED, as net's errors have it.
func (r refusal) Unwrap() error { return syscall.ECONNREFUSED }

// plain gives an error of package efa in the words of package net; the cause stays within.
func plain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, efa.ErrPeerFailed), errors.Is(err, efa.ErrPeerAborted), errors.Is(err, errFrame),
		errors.Is(err, errGone):
		return fmt.Errorf("%w: %w", syscall.ECONNRESET, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return os.ErrDeadlineExceeded
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, net.ErrClosed): // also that of an endpoint which was closed
		return net.ErrClosed
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return err
}

// opError is the error of a call as net's connections return it.
func opError(op string, from, to net.Addr, err error) error {
	err = plain(err)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: network, Source: from, Addr: to, Err: err}
}

// callError is the error of Dial and Listen: a net.OpError with this package's name in front. Those of
// connections are net.OpErrors as they are, since net/http looks for the type itself.
func callError(op, addr string, err error) error {
	return &dialError{opError(op, nil, Addr{addr}, err)}
}

type dialError struct{ err error }

// Error is one line.
func (e *dialError) Error() string { return "efanet: " + errtext.Cause(e.err) }

// Unwrap is the net.OpError.
func (e *dialError) Unwrap() error { return e.err }

// Timeout and Temporary are net.Error's.
func (e *dialError) Timeout() bool {
	var n net.Error
	return errors.As(e.err, &n) && n.Timeout()
}

func (e *dialError) Temporary() bool { return e.Timeout() }
