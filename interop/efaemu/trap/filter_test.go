//go:build linux && (amd64 || arm64)

package trap

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/internal/seccomp"
)

// seccompData is a filter's input for a call.
type seccompData struct {
	nr, arch uint32
	args     [6]uint64
}

// interpret runs a filter as the kernel does.
func interpret(t *testing.T, prog []unix.SockFilter, d seccompData) uint32 {
	var acc uint32
	for pc := 0; ; pc++ {
		require.Less(t, pc, len(prog))
		switch in := prog[pc]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch {
			case in.K == 0:
				acc = d.nr
			case in.K == 4:
				acc = d.arch
			case in.K >= 16 && in.K%8 == 0:
				acc = uint32(d.args[(in.K-16)/8])
			default:
				require.FailNow(t, "load", "%d", in.K)
			}
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if acc == in.K {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			require.FailNow(t, "code", "%#x", in.Code)
		}
	}
}

func TestFilter(t *testing.T) {
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		notify = unix.SECCOMP_RET_USER_NOTIF
		refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
		x32    = 0x40000000
	)
	type args = [6]uint64
	for _, c := range []struct {
		name         string
		nr, arch     uint32
		args         args
		plain, stric uint32
	}{
		{"openat", unix.SYS_OPENAT, seccomp.NativeArch, args{}, notify, notify},
		{"openat2", unix.SYS_OPENAT2, seccomp.NativeArch, args{}, notify, notify},
		{"fstat", unix.SYS_FSTAT, seccomp.NativeArch, args{}, notify, notify},
		{"statx", unix.SYS_STATX, seccomp.NativeArch, args{}, notify, notify},
		{"read", unix.SYS_READ, seccomp.NativeArch, args{}, allow, allow},
		{"write", unix.SYS_WRITE, seccomp.NativeArch, args{}, allow, notify},
		{"mmap", unix.SYS_MMAP, seccomp.NativeArch, args{}, allow, allow},
		{"close", unix.SYS_CLOSE, seccomp.NativeArch, args{}, allow, allow},
		{"ioctl of uverbs", unix.SYS_IOCTL, seccomp.NativeArch, args{7, abi.IoctlVerbs}, notify, notify},
		{"the same, high bits set", unix.SYS_IOCTL, seccomp.NativeArch, args{7, 0xffffffff<<32 | abi.IoctlVerbs}, notify, notify},
		{"other ioctl", unix.SYS_IOCTL, seccomp.NativeArch, args{7, unix.TCGETS}, allow, allow},
		{"ioctl of that number's descriptor", unix.SYS_IOCTL, seccomp.NativeArch, args{abi.IoctlVerbs, 1}, allow, allow},
		{"netlink of rdma", unix.SYS_SOCKET, seccomp.NativeArch, args{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_RDMA}, refuse, refuse},
		{"other netlink", unix.SYS_SOCKET, seccomp.NativeArch, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow, allow},
		{"other socket", unix.SYS_SOCKET, seccomp.NativeArch, args{unix.AF_INET, unix.SOCK_STREAM, unix.NETLINK_RDMA}, allow, allow},
		{"x32", unix.SYS_OPENAT | x32, seccomp.NativeArch, args{}, allow, allow},
		{"i386", unix.SYS_OPENAT, unix.AUDIT_ARCH_I386, args{}, allow, allow},
		{"arm", unix.SYS_OPENAT, unix.AUDIT_ARCH_ARM, args{}, allow, allow},
		{"socket of i386", unix.SYS_SOCKET, unix.AUDIT_ARCH_I386, args{unix.AF_NETLINK, 0, unix.NETLINK_RDMA}, allow, allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := seccompData{c.nr, c.arch, c.args}
			require.Equal(t, c.plain, interpret(t, filter(false), d))
			require.Equal(t, c.stric, interpret(t, filter(true), d))
		})
	}
}

// The filter traps exactly the calls that the supervisor can serve.
func TestTrappedIsServed(t *testing.T) {
	for nr := range calls {
		d := seccompData{nr: nr, arch: seccomp.NativeArch}
		require.Equal(t, uint32(unix.SECCOMP_RET_USER_NOTIF), interpret(t, filter(false), d), nr)
	}
}
