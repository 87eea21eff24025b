//go:build !linux

package uverbs

import (
	"fmt"
	"log/slog"

	"github.com/efactor/efactor/actors/device"
)

// Config says which device to open.
type Config struct {
	Path, Name string
	Narrow     bool
	Logger     *slog.Logger
}

// Open needs Linux.
func Open(Config) (device.Device, error) {
	return nil, fmt.Errorf("uverbs: %w", device.ErrNotSupported)
}
