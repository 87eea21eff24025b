//go:build linux && (amd64 || arm64)

package trap

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// trialDevice is a device that opens once, and whose ioctl puts a word into the
// program's memory and into its own.
type trialDevice struct{ file trialFile }

type trialFile struct {
	fd     int
	closed atomic.Bool
}

const trialWord = "emulated"

// Open implements Device.
func (d *trialDevice) Open(name string) (File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("trap: memfd: %w", err)
	}
	d.file.fd = fd
	return &d.file, unix.Ftruncate(fd, int64(os.Getpagesize()))
}

// FD implements File.
func (f *trialFile) FD() int { return f.fd }

// Ioctl implements File.
func (f *trialFile) Ioctl(t kernel.Task, _, arg uint64) unix.Errno {
	if _, err := unix.Pwrite(f.fd, []byte(trialWord), 0); err != nil {
		return unix.EIO
	}
	if err := t.Space().WriteAt([]byte(trialWord), arg); err != nil {
		return unix.EFAULT
	}
	return 0
}

// Close implements File.
func (f *trialFile) Close() {
	if !f.closed.Swap(true) {
		_ = unix.Close(f.fd)
	}
}

// probes are the steps of the probe; its exit status is the number of the one that
// failed.
var probes = []struct {
	name string
	do   func(*probe) error
}{
	{"sysfs tree", (*probe).sysfs},
	{"stat", (*probe).stat},
	{"open", (*probe).open},
	{"fstat", (*probe).fstat},
	{"mmap", (*probe).mmap},
	{"ioctl", (*probe).ioctl},
}

type probe struct {
	fd  int
	mem []byte
}

func probeMain() int {
	var p probe
	for i, step := range probes {
		if err := step.do(&p); err != nil {
			return i + 1
		}
	}
	return 0
}

func probeFailure(status int) string {
	if status > 0 && status <= len(probes) {
		return "the program's " + probes[status-1].name + " fails"
	}
	return fmt.Sprintf("the program ends with status %d", status)
}

func (p *probe) sysfs() error {
	_, err := os.ReadFile(filepath.Join(os.Getenv("SYSFS_PATH"), "class/infiniband_verbs/uverbs0/ibdev"))
	return err
}

func (p *probe) stat() error {
	var st unix.Stat_t
	if err := unix.Stat(DevicePath, &st); err != nil {
		return err
	}
	return isDeviceStat(&st)
}

func isDeviceStat(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(devMajor, devMinor) {
		return unix.ENODEV
	}
	return nil
}

func (p *probe) open() (err error) {
	p.fd, err = unix.Open(DevicePath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	return err
}

func (p *probe) fstat() error {
	var st unix.Stat_t
	if err := unix.Fstat(p.fd, &st); err != nil {
		return err
	}
	return isDeviceStat(&st)
}

func (p *probe) mmap() (err error) {
	p.mem, err = unix.Mmap(p.fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (p *probe) ioctl() error {
	var word [len(trialWord)]byte
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), abi.IoctlVerbs, uintptr(unsafe.Pointer(&word)))
	if errno != 0 {
		return errno
	}
	if string(word[:]) != trialWord || string(p.mem[:len(word)]) != trialWord {
		return unix.EIO
	}
	return nil
}
