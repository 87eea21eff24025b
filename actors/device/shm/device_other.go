//go:build !linux

package shm

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// Open needs Linux: its locks that die with an open file, and its timers.
func Open(Config) (device.Device, error) {
	return nil, fmt.Errorf("shm: %w", device.ErrNotSupported)
}
