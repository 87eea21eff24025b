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
