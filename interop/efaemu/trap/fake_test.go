//go:build linux && (amd64 || arm64)

package trap

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// fake is a device that counts.
type fake struct {
	opened, closed, ioctls atomic.Int64
	refusal                error         // of Open
	began                  chan struct{} // gets one for each opBlock
	block                  chan struct{} // opBlock waits for its end

	mu    sync.Mutex
	files []*fakeFile
	maps  []kernel.Mapping // opMaps
}

type fakeFile struct {
	fake *fake
	name string
	fd   int
}

func newFake() *fake {
	return &fake{began: make(chan struct{}, 10), block: make(chan struct{})}
}

func (d *fake) live() int { return int(d.opened.Load() - d.closed.Load()) }

func (d *fake) Open(name string) (File, error) {
	if d.refusal != nil {
		return nil, d.refusal
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	d.opened.Add(1)
	f := &fakeFile{d, name, fd}
	d.mu.Lock()
	d.files = append(d.files, f)
	d.mu.Unlock()
	return f, unix.Ftruncate(fd, 16*int64(os.Getpagesize()))
}

func (f *fakeFile) FD() int { return f.fd }

func (f *fakeFile) Close() {
	f.fake.closed.Add(1)
	_ = unix.Close(f.fd)
}

// Requests of the fake: four words at arg, the first says which; answers go into
// the third and fourth.
const (
	opCount   = iota + 1 // the number of this request
	opPID                // of the caller
	opInstall            // a descriptor to read "hello" from, close-on-exec if the second word says so
	opStatFD             // of the second word: device and inode
	opMaps               // keeps the caller's mappings
	opBlock              // waits
	opFail               // errno in the second word
)

const requestLen = 32

func (f *fakeFile) Ioctl(t kernel.Task, cmd, arg uint64) unix.Errno {
	n := f.fake.ioctls.Add(1)
	var b [requestLen]byte
	if cmd != abi.IoctlVerbs {
		return unix.ENOTTY
	}
	if err := t.Space().ReadAt(b[:], arg); err != nil {
		return unix.EFAULT
	}
	x := binary.NativeEndian.Uint64(b[8:])
	var out, out2 uint64
	switch binary.NativeEndian.Uint64(b[:]) {
	case opCount:
		out = uint64(n)
	case opPID:
		out = uint64(t.Space().PID())
	case opInstall:
		fd, err := installHello(t, x != 0)
		if err != nil {
			return errnoOf(err)
		}
		out = uint64(fd)
	case opStatFD:
		var err error
		if out, out2, err = t.StatFD(int(x)); err != nil {
			return errnoOf(err)
		}
	case opMaps:
		maps, err := t.Maps()
		if err != nil {
			return errnoOf(err)
		}
		f.fake.mu.Lock()
		f.fake.maps = maps
		f.fake.mu.Unlock()
	case opBlock:
		f.fake.began <- struct{}{}
		<-f.fake.block
	case opFail:
		return unix.Errno(x)
	default:
		return unix.EOPNOTSUPP
	}
	binary.NativeEndian.PutUint64(b[16:], out)
	binary.NativeEndian.PutUint64(b[24:], out2)
	if err := t.Space().WriteAt(b[16:], arg+16); err != nil {
		return unix.EFAULT
	}
	return 0
}

// installHello gives the caller the read end of a pipe.
func installHello(t kernel.Task, cloexec bool) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	if _, err := unix.Write(p[1], []byte("hello")); err != nil {
		return 0, err
	}
	return t.InstallFD(p[0], cloexec)
}

// request is the program's side of a fake's ioctl.
func request(fd int, op, x uint64) (out, out2 uint64, err error) {
	w := [4]uint64{op, x}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), abi.IoctlVerbs, uintptr(unsafe.Pointer(&w)))
	if errno != 0 {
		return 0, 0, errno
	}
	return w[2], w[3], nil
}

func TestFakeFails(t *testing.T) {
	d := newFake()
	d.refusal = errors.New("no more")
	s, err := newSessions()
	require.NoError(t, err)
	defer s.close()
	_, err = s.open(d, unix.O_RDWR)
	require.ErrorIs(t, err, d.refusal)
	require.Equal(t, unix.EIO, errnoOf(err))
}
