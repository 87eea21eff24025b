//go:build linux && (amd64 || arm64)

package trap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/interop/efaemu/finding"
)

// Errors of Run, beside those of the program's exit.
var (
	ErrNotFound = errors.New("trap: program not found")
	ErrCannot   = errors.New("trap: program cannot be executed")
	ErrRefused  = errors.New("trap: programs cannot be supervised here")
)

// Config describes a run. Device is required.
type Config struct {
	Device Device
	GID    device.GID // as sysfs shows it
	PartID uint32

	// Counters are the hardware counters, by their place below the RDMA device in sysfs;
	// all names differ. It is called when one is opened, from any goroutine. nil: none.
	Counters func() map[string]uint64

	Strict   bool // more traps, for Findings' sake
	Findings *finding.Log
	Stats    *Stats // nil: not wanted

	Signals <-chan os.Signal // passed on to the program
	Env     []string         // nil: this process's
	Std     [3]*os.File      // nil: this process's
}

// Run runs a program, found as a shell does, with its arguments (its name first),
// and waits until it and all processes that it has started are gone. The result is
// the program's exit status, 128 and the signal's number if one has killed it. When
// ctx ends all are killed.
func Run(ctx context.Context, cfg Config, argv []string) (status int, err error) {
	if len(argv) == 0 {
		return statusNotFound, ErrNotFound
	}
	path, err := exec.LookPath(argv[0]) // before there is a filter
	switch {
	case errors.Is(err, os.ErrPermission):
		return statusCannot, fmt.Errorf("%w: %s", ErrCannot, argv[0])
	case err != nil:
		return statusNotFound, fmt.Errorf("%w: %s", ErrNotFound, argv[0])
	}
	for _, f := range quickFeatures() {
		if f.Err != nil {
			return statusBroken, fmt.Errorf("%w: %s: %w", ErrRefused, f.Name, f.Err)
		}
	}
	return cfg.run(ctx, path, argv)
}

func (cfg Config) withDefaults() Config {
	if cfg.Stats == nil {
		cfg.Stats = new(Stats)
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	for i, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if cfg.Std[i] == nil {
			cfg.Std[i] = f
		}
	}
	return cfg
}

func (cfg Config) run(ctx context.Context, path string, argv []string) (status int, err error) {
	cfg = cfg.withDefaults()
	dir, err := makeSysfs(cfg.GID, cfg.PartID)
	if err != nil {
		return statusBroken, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	counters, err := newCounters(dir, cfg.Counters)
	if err != nil {
		return statusBroken, err
	}
	sessions, err := newSessions()
	if err != nil {
		return statusBroken, err
	}
	defer sessions.close()
	p, err := cfg.start(dir, path, argv)
	if err != nil {
		return statusBroken, err
	}
	defer p.close()
	p.helper.Go(func() { p.relay(ctx, cfg.Signals) })

	status, err = p.await(func(l seccomp.Listener) error {
		s := &supervisor{cfg: &cfg, listener: l, sessions: sessions, device: newDeviceStat(), counters: counters}
		return s.serve()
	})
	if err == nil {
		sessions.drain()
	}
	return status, err
}
