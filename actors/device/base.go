package device

import (
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Base is what a driver of a single device embeds: it reaches every GID, runs in real
// time, and refuses the kinds of memory that few devices have.
type Base struct{}

// Devices implements Device: it joins none.
func (Base) Devices() []Device { return nil }

// Reaches implements Device: it reaches every GID.
func (Base) Reaches(GID) bool { return true }

// Environment implements Device: real time.
func (Base) Environment() Environment { return nil }

// RegisterDMABuf implements Device by a refusal.
func (Base) RegisterDMABuf(int, uint64, int, Access) (MR, error) { return nil, ErrNotSupported }

// RegisterForeign implements Device by a refusal.
func (Base) RegisterForeign(int, uint64, int, Access) (MR, error) { return nil, ErrNotSupported }

// QPBase is what a driver's queue pair embeds: it has one path, and refuses windows.
type QPBase struct{}

// Paths implements QP: there is one.
func (QPBase) Paths() []Path { return nil }

// PathOf implements QP.
func (QPBase) PathOf(AH) int { return 0 }

// SetRNRRetry implements QP by a refusal.
func (QPBase) SetRNRRetry(uint8) error { return ErrNotSupported }

// Lend implements QP by a refusal.
func (QPBase) Lend(uint8, uint32, []byte) (uint64, error) { return 0, ErrNotSupported }

// Return implements QP: there is nothing to return.
func (QPBase) Return(uint8, uint64) {}

// LendPlain implements QP by a refusal.
func (QPBase) LendPlain(AH, uint16, []byte) (uint64, uint64, error) { return 0, 0, ErrNotSupported }

// Relend implements QP by a refusal.
func (QPBase) Relend(uint8, uint64, []byte) error { return ErrNotSupported }

// Pulse implements QP: there is none.
func (QPBase) Pulse(AH, uint16) (uint32, bool) { return 0, false }

// HoldBack implements QP by a refusal.
func (QPBase) HoldBack(AH, uint16, bool, uint32) error { return ErrNotSupported }

// Why implements QP: the device knows no reasons.
func (QPBase) Why(AH) error { return nil }

// MRBase is what a driver's memory region embeds: it is one region.
type MRBase struct{}

// Parts implements MR: there are none.
func (MRBase) Parts() []MR { return nil }

// Environment is what a simulated device brings along for those who run on it: its own
// time, and a way to wait in it.
type Environment interface {
	Clock() clock.Clock
	Waiter() shard.Waiter
	Seed() uint64
	Random() uint32
	// Attach receives each shard, which the environment runs.
	Attach(*shard.Shard)
}
