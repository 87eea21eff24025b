package shm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Limits and defaults of the driver.
const (
	DefaultMTU   = 8760
	DefaultDepth = 256

	minMTU   = 64
	maxMTU   = 1<<16 - 1 // a length is 16 bits of a cell's word
	maxDepth = 8192
	maxQP    = 4096

	// maxRegions: each that others reach is a mapping, and Linux lets a process have
	// 65530. Without any left, its own memory cannot grow.
	maxRegions = 1 << 15

	// maxRDMA bounds the copy of one RDMA request, and so for how long it holds
	// the shard: 5 to 20 us, as the data is in a cache or not. Smaller requests
	// are no faster (BenchmarkRead).
	maxRDMA = 256 << 10

	// minRead is from which size a message is rather read from where it lies.
	// BenchmarkCross: with data that is in no cache, one copy by the receiver and
	// two, at both sides at the same time, take equally long from 64 KiB on (21
	// to 23 us for 256 KiB). Data that the sender has just made comes sooner by
	// packets up to 1 MiB (11 us, not 14). But that takes two processors'
	// time, and leaves out what the protocol does for each of 30 packets.
	minRead = 256 << 10
)

// Errors of Open and OpenQP beside those of package device.
var (
	// ErrDirectory: the directory is not this user's alone.
	ErrDirectory = errors.New("shm: unsafe directory")
	// ErrMTU: processes in the directory use another MTU.
	ErrMTU = errors.New("shm: the fabric has another mtu")
	// ErrConfig: a Config or QPConfig makes no sense.
	ErrConfig = errors.New("shm: bad configuration")
)

// Config describes the attachment to a fabric. The zero value works.
type Config struct {
	// Dir holds the fabric: processes with the same directory reach each
	// other. It is made if missing, must belong to the effective user and be
	// closed to everybody else. "": efactor-<uid> in /dev/shm, or where there
	// is none in os.TempDir.
	Dir string

	// MTU is the fabric's, in bytes, 64 to 65535; 0: DefaultMTU.
	MTU int

	// GID is the host's place on the fabric. Processes of one directory may have
	// different ones, as if they were on different hosts; queue pair numbers are
	// still the directory's. Zero: one that follows from the directory.
	GID device.GID

	// RNRDelay is the time before the first device resend; it doubles for the
	// following ones. 0: nic.DefaultRNRDelay.
	RNRDelay time.Duration

	// Clock times device resends. nil: clock.System.
	Clock clock.Clock

	// Logger gets what an operator must know; nil: nothing.
	Logger *slog.Logger
}

// HostGID is a GID for Config that names a host: the same for the same name.
func HostGID(name string) device.GID { return linkLocal([]byte("host " + name)) }

// linkLocal is the GID that a hash of b gives, of those which mean nothing elsewhere.
func linkLocal(b []byte) (g device.GID) {
	sum := sha256.Sum256(b)
	binary.BigEndian.PutUint16(g[:], 0xfe80)
	copy(g[8:], sum[:8])
	return g
}

func (c Config) withDefaults() Config {
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.MTU < minMTU || c.MTU > maxMTU {
		return fmt.Errorf("%w: mtu %d is not in [%d, %d]", ErrConfig, c.MTU, minMTU, maxMTU)
	}
	if c.RNRDelay < 0 {
		return fmt.Errorf("%w: rnr delay %v", ErrConfig, c.RNRDelay)
	}
	return nil
}
