//go:build !linux

package sysfs

import "github.com/efactor/efactor/actors/device"

// Try needs Linux.
func (h Host) Try(*NIC) error { return device.ErrNotSupported }

// Memlock needs Linux.
func (h Host) Memlock(uint64) error { return device.ErrNotSupported }

func cpus() []int { return nil }
