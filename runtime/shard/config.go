package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// Config says how a shard runs. The zero value works.
type Config struct {
	// Name begins the path of every actor of the shard; "shard" if empty. A name
	// that another shard of this process has gets a number.
	Name string
	// Mode says which goroutine runs the shard; see Auto.
	Mode Mode
	// PinCPU lists the CPUs that a pinned shard may choose from. Empty: any that
	// the process may run on, the highest first, another for each shard.
	PinCPU []int
	// Spin is how long an idle loop polls at most before it sleeps; DefaultSpin if 0. A loop whose gaps are
	// mostly longer sleeps at once, and one that shares its CPU gives that to other threads after every look.
	Spin time.Duration
	// Grace is how long a manual shard may have work and no goroutine that runs it
	// before the helper takes it; DefaultGrace if 0. Where goroutines call again and again it may be
	// 8 ms, or 1 ms where they only post.
	Grace time.Duration
	// Clock is the shard's time; clock.System if nil. Parking follows a clock
	// other than the system's by looking at it every millisecond.
	Clock clock.Clock
	// Seed is where Rand starts. 0 takes one from crypto/rand.
	Seed uint64
	// Logger gets failures of actors; nil logs nothing.
	Logger *slog.Logger
	// External leaves the shard to its creator, which calls Adopt once and then
	// Turn: no goroutine runs, nothing parks, no system clock is read if Clock is
	// given. For simulation and single-goroutine tests. Mode is then Manual.
	External bool
	// Waiter replaces the built-in way of waiting.
	Waiter Waiter

	alone bool // a pinned shard is not lent
}

// validate fills in the defaults and returns all errors, joined.
func (c *Config) validate() error {
	var errs []error
	if int(c.Mode) >= len(modeNames) {
		errs = append(errs, fmt.Errorf("shard: unknown mode %d", c.Mode))
	}
	if c.Spin < 0 {
		errs = append(errs, fmt.Errorf("shard: Spin %v is negative", c.Spin))
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("shard: Grace %v is negative", c.Grace))
	}
	for _, cpu := range c.PinCPU {
		if cpu < 0 {
			errs = append(errs, fmt.Errorf("shard: PinCPU %d is negative", cpu))
		}
	}
	if c.Name == "" {
		c.Name = "shard"
	}
	if c.Spin == 0 {
		c.Spin = DefaultSpin
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Defaults of Config.
const (
	DefaultSpin  = 150 * time.Microsecond
	DefaultGrace = 50 * time.Microsecond
)

// Mode says which goroutine runs a shard.
type Mode uint8

const (
	// Auto takes Manual with fewer than 4 CPUs (a cgroup's quota counts) or with GOMAXPROCS
	// below 3, where a spinning thread would take a core from the application;
	// else Pinned. ModeReason says which and why.
	Auto Mode = iota
	// Pinned runs the shard on a goroutine locked to an OS thread and a CPU. It
	// does not wait through the Go scheduler. Where processors are few, as Auto counts them or
	// since the process has as many shards, a thread that spins would keep those from running
	// who wait for it: there the shard is lent to a goroutine while that waits, and that runs on any CPU.
	Pinned
	// Manual lets the goroutine that waits run the shard; while none waits, a helper
	// does.
	Manual
)

var modeNames = [...]string{Auto: "auto", Pinned: "pinned", Manual: "manual"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return Auto, fmt.Errorf("shard: unknown mode %q", s)
}

const (
	autoMinCPUs  = 4
	autoMinProcs = 3
)

// resolve turns Auto into a mode that runs, and returns why.
func (m Mode) resolve(cpus, procs int) (Mode, string) {
	switch {
	case m != Auto:
		return m, "configured"
	case cpus < autoMinCPUs:
		return Manual, fmt.Sprintf("auto: %d CPUs, fewer than %d", cpus, autoMinCPUs)
	case procs < autoMinProcs:
		return Manual, fmt.Sprintf("auto: GOMAXPROCS %d, below %d", procs, autoMinProcs)
	default:
		return Pinned, fmt.Sprintf("auto: %d CPUs, GOMAXPROCS %d", cpus, procs)
	}
}

// fewCores reports whether a spinning thread would keep others from running.
func fewCores(cpus, procs int) bool {
	return cpus < autoMinCPUs || procs < autoMinProcs || int(shards.Load()) >= procs-1
}

// cores are the CPUs that this process has the time of, and Go's processors. A quota of a cgroup counts as CPUs,
// rounded up.
func cores() (cpus, procs int) {
	return int(math.Ceil(min(float64(runtime.NumCPU()), sys.CPULimit()))), runtime.GOMAXPROCS(0)
}
