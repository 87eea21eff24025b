package shard

import (
	"fmt"
	"runtime"
)

// Mode says which goroutine runs a shard.
type Mode uint8

const (
	// Auto takes Manual on a machine with fewer than 4 CPUs or with GOMAXPROCS
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
	// Cooperative runs the shard on an ordinary goroutine.
	Cooperative
)

var modeNames = [...]string{Auto: "auto", Pinned: "pinned", Manual: "manual", Cooperative: "cooperative"}

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
func fewCores() bool {
	cpus, procs := cores()
	return cpus < autoMinCPUs || procs < autoMinProcs || int(shards.Load()) >= procs-1
}

func cores() (cpus, procs int) { return runtime.NumCPU(), runtime.GOMAXPROCS(0) }
