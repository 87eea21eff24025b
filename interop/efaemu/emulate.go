//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/interop/efaemu/trace"
	"github.com/efactor/efactor/interop/efaemu/trap"
	"github.com/efactor/efactor/runtime/clock"
)

// spareThreads is how many threads may sit in system calls without holding others
// up: the engine's sleeps are invisible to Go's scheduler, and keep a P each.
const spareThreads = 16

// emulate runs the program with a device and returns its exit status.
func (o *options) emulate() (status int, err error) {
	runtime.GOMAXPROCS(runtime.NumCPU() + spareThreads)
	cfg := shm.Config{Dir: o.fabric, MTU: o.mtu}
	if o.host != "" {
		cfg.GID = shm.HostGID(o.host)
	}
	dev, err := shm.Open(cfg)
	if err != nil {
		return statusBroken, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	top := dev
	if o.pcap != "" {
		c, err := createCapture(o.pcap)
		if err != nil {
			return statusBroken, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		top = tap.Wrap(dev, c)
	}
	if o.trace == "" {
		return o.supervise(top, nil)
	}
	f, err := os.Create(o.trace)
	if err != nil {
		return statusBroken, err
	}
	rec := trace.New(f)
	status, err = o.supervise(top, rec)
	return status, errors.Join(err, rec.Close(), f.Close())
}

// supervise runs the program on dev. rec, unless nil, records what it does with the device.
func (o *options) supervise(dev device.Device, rec *trace.Recorder) (status int, err error) {
	var findings *finding.Log
	if o.strict {
		findings = new(finding.Log)
	}
	p := profile.For(o.profile, dev)
	eng := engine.New(engine.Config{
		Profile: p, Device: dev, Clock: clock.System, Findings: findings,
		Shuffle: engine.Shuffle{Window: o.shuffle, Seed: o.seed}, Faults: o.faults,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { eng.Run(ctx) })
	defer func() {
		cancel()
		running.Wait()
	}()

	front := &front{dev: kernel.New(kernel.Config{Engine: eng, Profile: p, Info: dev.Info(), Findings: findings, Faults: o.faults}), trace: rec}
	if o.verbose {
		front.log = os.Stderr
	}
	killing, kill := context.WithCancel(ctx)
	defer kill()
	var stats trap.Stats
	status, err = trap.Run(killing, trap.Config{
		Device: front, GID: dev.Info().GID, PartID: p.PartID,
		Counters: func() map[string]uint64 {
			s := eng.Stats()
			return counters(&s, front.dev.Commands())
		},
		Strict: o.strict, Findings: findings, Stats: &stats,
		Signals: passOn(kill),
	}, o.program)
	if err != nil {
		return status, err
	}
	if o.verbose {
		report(os.Stderr, &stats, eng.Stats())
	}
	if left := front.dev.Stats(); left != (kernel.Stats{}) {
		return statusBroken, fmt.Errorf("the device is not empty at the end: %+v", left)
	}
	if tell(findings) && status == 0 {
		status = statusFindings
	}
	return status, nil
}

// tell prints the findings, if there are any.
func tell(findings *finding.Log) bool {
	kept, total := findings.Take()
	for _, f := range kept {
		fmt.Fprintf(os.Stderr, "efaemu: %v\n", f)
	}
	if n := total - len(kept); n > 0 {
		fmt.Fprintf(os.Stderr, "efaemu: and %d findings more\n", n)
	}
	return total > 0
}
