//go:build linux && (amd64 || arm64)

package nthcall

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
)

// filter sends the calls made at one instruction to the supervisor, except those that talk
// to the parent over the descriptor ctl, and those that the Go runtime makes of its own
// epoll descriptor.
func filter(at uint64, ctl, epoll int) []unix.SockFilter {
	const offNR, offArch, offIP, offArgs = 0, 4, 8, 16 // in struct seccomp_data
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	return []unix.SockFilter{
		load(offArch), equal(seccomp.NativeArch, 0, 14), // to ALLOW, the last but one
		load(offIP), equal(uint32(at), 0, 12),
		load(offIP + 4), equal(uint32(at>>32), 0, 10),
		load(offNR),
		equal(unix.SYS_READ, 6, 0), equal(unix.SYS_WRITE, 5, 0), equal(unix.SYS_SENDMSG, 4, 0),
		equal(unix.SYS_EPOLL_PWAIT, 1, 0), equal(unix.SYS_EPOLL_CTL, 0, 5),
		load(offArgs), equal(uint32(epoll), 2, 3), // of the runtime
		load(offArgs), equal(uint32(ctl), 0, 1), // of the control socket
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_USER_NOTIF),
	}
}

// syscallAt is the instruction address that the kernel sees in system calls of package
// syscall: that of a thread which waits in one.
func syscallAt() (uint64, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	tid, done := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- unix.Gettid()
		_, err := unix.Read(p[0], make([]byte, 1))
		done <- err
	}()
	path := fmt.Sprintf("/proc/self/task/%d/syscall", <-tid)
	for {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		f := strings.Fields(string(text))
		if len(f) == 9 && f[0] == strconv.Itoa(unix.SYS_READ) {
			at, err := strconv.ParseUint(f[8], 0, 64)
			_, err2 := unix.Write(p[1], []byte{1})
			return at, errors.Join(err, err2, <-done)
		}
		runtime.Gosched()
	}
}

// runtimeEpoll is the descriptor that the Go runtime waits with.
func runtimeEpoll() (int, error) {
	r, w, err := os.Pipe() // from here on there is one
	if err != nil {
		return 0, err
	}
	defer r.Close()
	defer w.Close()
	fds, err := descriptors()
	if err != nil {
		return 0, err
	}
	for fd, what := range fds {
		if what == "anon_inode:[eventpoll]" {
			return fd, nil
		}
	}
	return 0, errors.New("the runtime has no epoll descriptor")
}
