//go:build linux && (amd64 || arm64)

package trap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
)

// processes are what a run has started: the guard, and through it the program.
type processes struct {
	guard     int
	life, ctl int // sockets to the guard and to the launcher

	helper sync.WaitGroup
	done   chan struct{} // closed to end it
}

func (cfg *Config) start(dir, path string, argv []string) (*processes, error) {
	life, guardLife, err := pair()
	if err != nil {
		return nil, err
	}
	ctl, launchCtl, err := pair()
	if err != nil {
		return nil, errors.Join(err, unix.Close(life), unix.Close(guardLife))
	}
	filter := "plain"
	if cfg.Strict {
		filter = strictArg
	}
	s := starter{
		role: guardRole, give: []int{guardLife, launchCtl}, std: cfg.Std,
		args: append([]string{dir, filter, path}, argv...),
		env:  append(withoutVar(cfg.Env, "SYSFS_PATH"), "SYSFS_PATH="+dir),
	}
	pid, err := s.start()
	// A child that fails early must leave no process waiting: its ends are its own.
	err = errors.Join(err, unix.Close(guardLife), unix.Close(launchCtl))
	if err != nil {
		return nil, errors.Join(err, unix.Close(life), unix.Close(ctl))
	}
	return &processes{guard: pid, life: life, ctl: ctl, done: make(chan struct{})}, nil
}

func withoutVar(env []string, name string) []string {
	var rest []string
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			rest = append(rest, e)
		}
	}
	return rest
}

// await serves the program and those after it until the guard has ended.
func (p *processes) await(serve func(seccomp.Listener) error) (status int, err error) {
	served := make(chan error, 1)
	l, err := p.listener()
	if err != nil {
		p.signal(killAll)
		served <- nil
	} else {
		defer unix.Close(int(l))
		l.SyncWakeUp()
		go func() {
			err := serve(l)
			if err != nil { // calls would have no answer any more
				p.signal(killAll)
			}
			served <- err
		}()
		err = p.executed()
	}
	status, lost := p.wait()
	err = errors.Join(err, <-served)
	switch {
	case errors.Is(err, ErrCannot):
		return statusCannot, err
	case err != nil:
		return statusBroken, err
	case lost:
		return statusBroken, fmt.Errorf("%w: the guard process was killed", ErrRefused)
	}
	return status, nil
}

// listener is the launcher's first message, unless that is an error.
func (p *processes) listener() (seccomp.Listener, error) {
	text, fds, err := recvmsg(p.ctl)
	switch {
	case err != nil:
		return -1, fmt.Errorf("trap: launcher: %w", err)
	case len(fds) == 1 && text == listenerMessage:
		return seccomp.Listener(fds[0]), nil
	case text == "":
		text = "the launcher has ended"
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return -1, fmt.Errorf("%w: %s", ErrRefused, text)
}

// executed waits until the program runs. The launcher's end of the socket is closed
// by that, or by its death.
func (p *processes) executed() error {
	text, _, err := recvmsg(p.ctl)
	if err != nil {
		return fmt.Errorf("trap: launcher: %w", err)
	}
	if text != "" {
		return fmt.Errorf("%w: %s", ErrCannot, text)
	}
	return nil
}

// wait waits for the guard, and returns its report of the program's end.
func (p *processes) wait() (status int, lost bool) {
	lost = true
	for {
		text, _, err := recvmsg(p.life)
		if err != nil || text == "" {
			break
		}
		if len(text) == 4 {
			status, lost = exitStatus(unix.WaitStatus(binary.NativeEndian.Uint32([]byte(text)))), false
		}
	}
	_, _ = ignoringEINTR(func() (int, error) { return unix.Wait4(p.guard, nil, 0, nil) })
	return status, lost
}

// exitStatus is a wait status as shells have it.
func exitStatus(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// relay passes signals on until the run is over.
func (p *processes) relay(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-p.done:
			return
		case <-ctx.Done():
			p.signal(killAll)
			return
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			} else if n, ok := sig.(unix.Signal); ok {
				p.signal(byte(n))
			}
		}
	}
}

func (p *processes) signal(n byte) { _ = sendmsg(p.life, []byte{n}, nil) }

func (p *processes) close() {
	close(p.done)
	p.helper.Wait()
	_ = unix.Close(p.life)
	_ = unix.Close(p.ctl)
}
