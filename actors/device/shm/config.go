package shm

import (
	"cmp"
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

	// maxRegions: each region that others reach is a mapping, and Linux allows a
	// process 65530. Without any left, its own memory cannot grow.
	maxRegions = 1 << 15

	// maxRDMA bounds the copy of one RDMA request, and thereby the time for which
	// it holds the shard: 25 to 80 us, depending on whether the data is in a cache.
	// From 1 MiB on Go's copy writes past the caches, which then need not fetch what is
	// overwritten: requests of 256 KiB take half the time if both sides use the same 1 MiB
	// again and again, and 1.3 times as long if the data is in memory (BenchmarkRead).
	maxRDMA = 1 << 20

	// minRead is the size from which a message is read from where it lies instead of
	// sent. In a stream (two processes, posted operations, window 64) 64 KiB made 19 GB/s
	// by reads and 5 to 7 by packets, where two processors copy and the protocol handles
	// each of 8. To and fro, one at a time, 16 KiB take as long either way, and 128 KiB,
	// which by packets need a CTS, a fifth to a tenth of the time. A send that is read
	// completes only when there is a receive, so programs that exchange such messages post
	// their receives first.
	minRead = 16 << 10
)

// Errors of Open and OpenQP beside those of package device.
var (
	// ErrDirectory: the directory does not belong to this user alone.
	ErrDirectory = errors.New("shm: unsafe directory")
	// ErrMTU: processes in the directory use another MTU.
	ErrMTU = errors.New("shm: the fabric has another mtu")
	// ErrConfig: a Config or QPConfig makes no sense.
	ErrConfig = errors.New("shm: bad configuration")
)

// Config describes the attachment to a fabric. The zero value works.
type Config struct {
	// Dir holds the fabric: processes with the same directory reach each other. It
	// is made if missing, must belong to the effective user and be inaccessible to
	// other users. "": efactor-<uid> in /dev/shm, or if that does not exist in
	// os.TempDir; if another user has taken that name, the oldest efactor-<uid>.<random>
	// of ours.
	Dir string

	// MTU is the fabric's, in bytes, 64 to 65535; 0: DefaultMTU.
	MTU int

	// GID is the host's place on the fabric. Processes of one directory may have
	// different ones, as if they were on different hosts; queue pair numbers are
	// still the directory's. Zero: one that follows from the directory and, unless Files,
	// from what decides who may open whose memory: the namespaces of process numbers and of
	// users, and root's capabilities.
	GID device.GID

	// Files keeps memory that others reach in files of Dir, for processes in several
	// namespaces of process numbers (containers), or that may not read each other's memory.
	// Otherwise it is memory that no process can cut. See the package's documentation on trust.
	// A process without a /proc of its namespace has Files in any case, and Logger says so.
	Files bool

	// RNRDelay is the time before the first device resend; it doubles for the
	// following ones. 0: nic.DefaultRNRDelay.
	RNRDelay time.Duration

	// Clock times device resends. nil: clock.System.
	Clock clock.Clock

	// Logger gets messages for operators; nil: there are none.
	Logger *slog.Logger
}

// HostGID is a GID for Config that stands for a host: equal names give equal GIDs.
func HostGID(name string) device.GID { return linkLocal([]byte("host " + name)) }

// linkLocal returns the link-local GID with a hash of b; such a GID has no meaning
// elsewhere.
func linkLocal(b []byte) (g device.GID) {
	sum := sha256.Sum256(b)
	binary.BigEndian.PutUint16(g[:], 0xfe80)
	copy(g[8:], sum[:8])
	return g
}

func (c Config) withDefaults() Config {
	c.MTU = cmp.Or(c.MTU, DefaultMTU)
	c.Clock = cmp.Or(c.Clock, clock.System)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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

// Stats has counters of the memory regions of a device, and of requests to those of
// others.
type Stats struct {
	// Abandoned regions were closed during a copy that did not end.
	Abandoned uint64
	// Denied counts our requests that ended with StatusBadAddress or StatusUnreachable
	// since the kernel does not let this process access the other one's memory. Denial
	// explains the first.
	Denied uint64
	Denial error
}

// Counter is implemented by the devices of Open beside device.Device.
type Counter interface {
	Stats() Stats
}
