package echo

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// System is a library.
type System struct {
	Name string

	// serve answers until the context ends, and tells ready where it listens.
	serve func(ctx context.Context, p Plan, ready func(addr string)) error
	// dial connects. A call has returned when the answer is there.
	dial func(ctx context.Context, p Plan, addr string) (caller, error)
}

// caller asks one question at a time.
type caller interface {
	call(ctx context.Context, question []byte) (answer []byte, err error)
	close() error
}

// Systems lists the peers, with messages of bytes.
var Systems = []System{
	sockets(Unix, "unix"),
	sockets(TCP, "tcp"),
	{"grpc", serveGRPC, dialGRPC},
	{"nats", serveNATS, dialNATS},
	{"protoactor", serveProtoactor, dialProtoactor},
}

// The kernel's sockets, used by package net.
const (
	Unix = "go-unix"
	TCP  = "go-tcp"
)

var own = []System{{Endpoint, serveEndpoint, dialEndpoint}}

var (
	errUnknown = errors.New("no such system")
	errAnswer  = errors.New("the answer is not what was asked")
)

func find(name string) (*System, error) {
	for _, list := range [][]System{Systems, Documents, Actors, own} {
		if i := slices.IndexFunc(list, func(s System) bool { return s.Name == name }); i >= 0 {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("%q: %w", name, errUnknown)
}
