//go:build linux && (amd64 || arm64)

package trap

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/internal/seccomp"
)

// offsets in struct seccomp_data, of the low words of arguments
const (
	offNR   = 0
	offArch = 4
	offArgs = 16
)

// filter is the program that the kernel runs at each system call of the target. It
// decides by numbers alone; the supervisor examines paths and descriptors.
func filter(strict bool) []unix.SockFilter {
	var f []unix.SockFilter
	load := func(off uint32) {
		f = append(f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off})
	}
	// jump skips instructions: yes if the word loaded equals k, else no.
	jump := func(k uint32, yes, no uint8) {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k})
	}
	end := func(action uint32) { f = append(f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}) }

	load(offArch)
	jump(seccomp.NativeArch, 1, 0)
	end(unix.SECCOMP_RET_ALLOW)
	load(offNR)
	for _, nr := range trapped(strict) {
		jump(nr, 0, 1)
		end(unix.SECCOMP_RET_USER_NOTIF)
	}

	jump(unix.SYS_IOCTL, 0, 3)
	load(offArgs + 1*8) // the kernel compares 32 bits only, too
	jump(abi.IoctlVerbs, 0, 6)
	end(unix.SECCOMP_RET_USER_NOTIF)

	jump(unix.SYS_SOCKET, 0, 4)
	load(offArgs + 0*8)
	jump(unix.AF_NETLINK, 0, 2)
	load(offArgs + 2*8)
	jump(unix.NETLINK_RDMA, 1, 0)
	end(unix.SECCOMP_RET_ALLOW)
	end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT))
	return f
}

// trapped are the numbers that go to the supervisor with any arguments.
func trapped(strict bool) []uint32 {
	nrs := slices.Sorted(maps.Keys(calls))
	if strict {
		nrs = append(nrs, unix.SYS_WRITE)
	}
	return nrs
}
