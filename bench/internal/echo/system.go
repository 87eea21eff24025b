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
	serve func(ctx context.Context, ready func(addr string)) error
	// dial connects. A call has returned when the answer is there.
	dial func(ctx context.Context, addr string) (caller, error)
}

// caller asks one question at a time.
type caller interface {
	call(ctx context.Context, question []byte) (answer []byte, err error)
	close() error
}

// Systems lists them.
var Systems = []System{
	{"go-tcp", serveTCP, dialTCP},
	{"grpc", serveGRPC, dialGRPC},
	{"nats", serveNATS, dialNATS},
	{"protoactor", serveProtoactor, dialProtoactor},
}

var (
	errUnknown = errors.New("no such system")
	errAnswer  = errors.New("the answer is not what was asked")
)

func find(name string) (*System, error) {
	for _, list := range [][]System{Systems, Actors} {
		if i := slices.IndexFunc(list, func(s System) bool { return s.Name == name }); i >= 0 {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("%q: %w", name, errUnknown)
}
