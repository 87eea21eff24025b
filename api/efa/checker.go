package efa

import (
	"fmt"
)

// The states of an endpoint, in their order.
const (
	disabled uint32 = iota
	enabled
	mute     // likewise, but Initiate has no CapMessages
	draining // Shutdown waits for sends, there are no new ones
	closed
)

// live checks that the endpoint is enabled.
func (e *Endpoint) live() error {
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
func (e *Endpoint) ready() error {
	switch e.state.Load() {
	case enabled, mute:
		return nil
	case draining:
		return fmt.Errorf("%w: the endpoint is shutting down", ErrClosed)
	default:
		return e.live()
	}
}
