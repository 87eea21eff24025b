package efa

import (
	"fmt"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
)

// checker refuses what an endpoint may not do, and makes requests for the shard of the
// rest.
type checker struct {
	dom        *Domain
	cfg        EndpointConfig
	state      atomic.Uint32
	mostInject int       // bytes
	usual      ope.Flags // of an operation that leaves here if its caller asks for nothing else
}

// The states of an endpoint, in their order.
const (
	disabled uint32 = iota
	enabled
	mute     // likewise, but Initiate has no CapMessages
	draining // Shutdown waits for sends, there are no new ones
	closed
)

// live checks that the endpoint is enabled.
func (e *checker) live() error {
	switch e.state.Load() {
	case disabled:
		return fmt.Errorf("%w: the endpoint is not enabled", ErrBadState)
	case closed:
		return ErrClosed
	default:
		return nil
	}
}

// ready checks that the endpoint is enabled, and takes new operations that leave it.
func (e *checker) ready() error {
	switch e.state.Load() {
	case enabled, mute:
		return nil
	case draining:
		return fmt.Errorf("%w: the endpoint is shutting down", ErrClosed)
	default:
		return e.live()
	}
}
