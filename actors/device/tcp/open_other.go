//go:build !linux

package tcp

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// Credentials secure the connections of a device (Config.Credentials).
type Credentials any

// Open needs Linux: its epoll and its timers.
func Open(Config) (device.Device, error) {
	return nil, fmt.Errorf("tcp: %w", device.ErrNotSupported)
}
