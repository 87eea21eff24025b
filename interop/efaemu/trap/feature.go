//go:build linux && (amd64 || arm64)

package trap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// Feature is something that programs can only be supervised with.
type Feature struct {
	Name string // and since when Linux has it
	Err  error  // why it is missing, in one line
}

// Check checks all features that [Run] needs, at the end by running a small
// program.
func Check(ctx context.Context) []Feature {
	fs := quickFeatures()
	for _, f := range fs {
		if f.Err != nil {
			return fs
		}
	}
	return append(fs, Feature{"a supervised program finds, opens and maps a device", trial(ctx)})
}

// quickFeatures are those that cost nothing to ask for.
func quickFeatures() []Feature {
	return []Feature{
		{"seccomp notification with WAIT_KILLABLE_RECV (Linux 5.19)", seccomp.Check()},
		{"process_vm_readv and process_vm_writev (Linux 3.2)", checkMemory()},
		{"memfd_create and inotify (Linux 3.17)", checkFile()},
	}
}

func checkMemory() error {
	from, to := []byte("efaemu"), make([]byte, 6)
	self := memory.Self()
	if err := self.ReadAt(to, uint64(uintptr(unsafe.Pointer(&from[0])))); err != nil {
		return err
	}
	return self.WriteAt(from, uint64(uintptr(unsafe.Pointer(&to[0]))))
}

// checkFile looks for the event that ends a session.
func checkFile() error {
	var dev trialDevice
	s, err := newSessions()
	if err != nil {
		return err
	}
	fd, err := s.open(&dev, unix.O_RDWR)
	if err != nil {
		s.close()
		return err
	}
	err = unix.Close(fd)
	s.drain()
	heard := dev.file.closed.Load()
	s.close()
	if err == nil && !heard {
		err = errors.New("the kernel does not report the close of a memfd")
	}
	return err
}

// trial runs the probe.
func trial(ctx context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	var dev trialDevice
	cfg := Config{Device: &dev, Std: [3]*os.File{null, null, null}}
	status, err := cfg.run(ctx, "/proc/self/exe", []string{probeRole})
	switch {
	case err != nil:
		return err
	case status != 0:
		return fmt.Errorf("%s", probeFailure(status))
	case !dev.file.closed.Load():
		return errors.New("the device was not closed")
	}
	return nil
}
