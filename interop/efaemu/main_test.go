//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/interop/efaemu/trap"
)

// program is the built command; it runs the test binary, if roleVar is set.
var program string

const roleVar = "EFACTOR_EFAEMU_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(onCard) != "" {
		os.Exit(m.Run())
	}
	if os.Getenv(roleVar) != "" {
		if err := useDevice(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "efaemu-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "efaemu")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// useDevice asks for a context, in the way of libraries, and allocates a PD with it.
// Its arguments are mistakes to make.
func useDevice(mistakes []string) error {
	fd, err := unix.Open(trap.DevicePath, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	vectors, support, out := new([4]byte), new([8]byte), new([abi.ContextRespLen]byte)
	if err := call(fd, abi.ObjectDevice, abi.DeviceGetContext,
		attr(abi.ContextCompVectors, vectors[:]), attr(abi.ContextCoreSupport, support[:]),
		abi.Attr{ID: abi.AttrUHWIn, Len: 8, Data: 3}, attr(abi.AttrUHWOut, out[:])); err != nil {
		return fmt.Errorf("get context: %w", err)
	}
	handle, resp := new([4]byte), new([8]byte)
	if err := call(fd, abi.ObjectDevice, abi.DeviceInvokeWrite,
		abi.Attr{ID: abi.InvokeWriteCmd, Len: 8, Data: abi.CmdAllocPD}, abi.Attr{ID: abi.InvokeCoreIn, Len: 8},
		attr(abi.InvokeCoreOut, handle[:]), attr(abi.AttrUHWOut, resp[:])); err != nil {
		return fmt.Errorf("alloc PD: %w", err)
	}
	for _, m := range mistakes {
		switch m {
		case "write":
			_, err := unix.Write(fd, make([]byte, 24))
			fmt.Println("write:", err)
		case "list":
			if err := list(); err != nil {
				return err
			}
		case "die":
			return unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
	return nil
}

// list prints the devices that a program finds.
func list() error {
	var h sysfs.Host
	found, err := h.List()
	if err != nil {
		return err
	}
	for i := range found.NICs {
		n := &found.NICs[i]
		fmt.Println(n.Name, n.Uverbs, n.PCI, n.LinkSpeed, n.Active, n.Odd, h.Try(n))
	}
	fmt.Println(found.Skipped)
	return nil
}

func attr(id uint16, b []byte) abi.Attr {
	return abi.Attr{ID: id, Len: uint16(len(b)), Data: uint64(uintptr(unsafe.Pointer(&b[0])))}
}

func call(fd int, object, method uint16, attrs ...abi.Attr) error {
	h := abi.Header{
		Length: uint16(abi.HeaderLen + len(attrs)*abi.AttrLen), Object: object, Method: method,
		Attrs: uint16(len(attrs)), Driver: abi.DriverEFA,
	}
	b := h.Append(nil)
	for _, a := range attrs {
		a.Flags = abi.FlagMandatory
		b = a.Append(b)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), abi.IoctlVerbs, uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
		return errno
	}
	return nil
}

// efaemu runs the command to its end.
func efaemu(t *testing.T, args ...string) (status int, out, log string) {
	cmd := exec.Command(program, args...)
	var o, l bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &l
	cmd.Env = append(os.Environ(), roleVar+"=1", "TMPDIR="+t.TempDir())
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); !exited { //nolint:errorlint // as exec returns it
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), l.String()
}

// fabric is an empty one.
func fabric(t *testing.T) string {
	needFeatures(t)
	return "-fabric=" + filepath.Join(t.TempDir(), "fabric")
}

func needFeatures(t *testing.T) {
	if lacks := missing(); lacks != "" {
		testenv.Missing(t, "%s", lacks)
	}
}

// missing is the error if the kernel lacks a feature.
var missing = sync.OnceValue(func() string {
	out, err := exec.Command(program, "check").Output()
	if err != nil {
		return string(out) + err.Error()
	}
	return ""
})

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args     []string
		status   int
		out, log string
	}{
		{nil, 2, "", "Usage:\n"},
		{[]string{"walk"}, 2, "", "Usage:\n"},
		{[]string{"-h"}, 0, "FI_EFA_ENABLE_SHM_TRANSFER=0", ""},
		{[]string{"run", "-h"}, 0, "FI_EFA_ENABLE_SHM_TRANSFER=0", ""},
		{[]string{"run"}, 2, "", "efaemu: which program?"},
		{[]string{"run", "-strict", "--"}, 2, "", "efaemu: which program?"},
		{[]string{"run", "-x", "--", "true"}, 2, "", "flag provided but not defined: -x"},
		{[]string{"run", "-profile", "big", "--", "true"}, 2, "", `no "big"; there are efa, `},
		{[]string{"run", "-rdma-read=perhaps", "--", "true"}, 2, "", "perhaps"},
		{[]string{"run", "-shuffle", "-1", "--", "true"}, 2, "", "-shuffle -1"},
		{[]string{"run", "-mtu", "1", "--", "true"}, 125, "", "mtu 1 is not in"},
		{[]string{"run", "-fabric", "/proc/nowhere", "--", "true"}, 125, "", "/proc/nowhere"},
		{[]string{"profiles"}, 0, "efa          ", ""},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			status, out, log := efaemu(t, c.args...)
			require.Equal(t, c.status, status)
			require.Contains(t, out, c.out)
			require.Contains(t, log, c.log)
			require.True(t, c.out != "" || out == "")
			require.True(t, c.log != "" || log == "")
			if strings.HasPrefix(log, "efaemu: ") {
				require.Equal(t, 1, strings.Count(log, "\n"), "one line")
			}
		})
	}
}

func TestProfileFlags(t *testing.T) {
	for _, c := range []struct {
		args        []string
		read, write bool
		kernel      profile.Kernel
		rdma        bool
	}{
		{nil, true, false, profile.Linux61, true},
		{[]string{"-rdma-read=false"}, false, false, profile.Linux61, true},
		{[]string{"-profile=no-rdma", "-rdma-read"}, true, false, profile.Linux61, true},
		{[]string{"-rdma-read", "-profile=no-rdma"}, true, false, profile.Linux61, true},
		{[]string{"-rdma-write"}, true, true, profile.Newest, true},
		{[]string{"-profile=rdma-write", "-rdma-write=false"}, true, false, profile.Newest, true},
		{[]string{"-profile=rdma-write", "-rdma-read=false"}, false, false, profile.Newest, true},
		{[]string{"-rdma-read=false", "-rdma-write"}, false, true, profile.Newest, true},
		{[]string{"-profile=no-rdma"}, false, false, profile.Linux61, false},
	} {
		o, err := parse(append(c.args, "--", "a", "-strict"))
		require.NoError(t, err, c.args)
		require.Equal(t, c.read, o.profile.RDMARead, c.args)
		require.Equal(t, c.write, o.profile.RDMAWrite, c.args)
		require.Equal(t, c.kernel, o.profile.Kernel, c.args)
		require.Equal(t, c.rdma, o.profile.MaxRDMA > 0, c.args)
		require.Equal(t, []string{"a", "-strict"}, o.program)
		require.False(t, o.strict)
	}
}

func TestStatuses(t *testing.T) {
	f := fabric(t)
	self := os.Args[0]
	for _, c := range []struct {
		name   string
		args   []string
		status int
		log    string
	}{
		{"success", []string{"--", "true"}, 0, ""},
		{"failure", []string{"--", "sh", "-c", "exit 9"}, 9, ""},
		{"no program", []string{"--", "no-such-program"}, 127, "efaemu: trap: program not found: no-such-program\n"},
		{"device", []string{"-strict", "--", self}, 0, ""},
		{"killed with objects", []string{"--", self, "die"}, 137, ""},
		{"finding", []string{"-strict", "--", self, "write"}, 3, "efaemu: legacy-write: uverbs0.1: "},
		{"finding, and failure", []string{"-strict", "--", "sh", "-c", self + " write; exit 8"}, 8, "efaemu: legacy-write: uverbs0.1: "},
		{"nobody looks", []string{"--", self, "write"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, log := efaemu(t, append([]string{"run", f}, c.args...)...)
			require.Equal(t, c.status, status, out+log)
			require.True(t, strings.HasPrefix(log, c.log), log)
			require.True(t, c.log != "" || log == "", log)
		})
	}
	left, err := os.ReadDir(strings.TrimPrefix(f, "-fabric="))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestDiscovery: the package that finds EFA devices for efactor finds the emulated one, and
// may open it.
func TestDiscovery(t *testing.T) {
	status, out, log := efaemu(t, "run", fabric(t), "--", os.Args[0], "list")
	require.Zero(t, status, out+log)
	require.Equal(t, "efa_0 /dev/infiniband/uverbs0 0000:00:06.0 100000000000 true [] <nil>\n[]\n", out)
}

func TestVerbose(t *testing.T) {
	status, _, log := efaemu(t, "run", fabric(t), "-v", "--", os.Args[0])
	require.Zero(t, status)
	require.Regexp(t, `^efaemu: uverbs0.1: open: ok
efaemu: uverbs0.1: process \d+: get context: ok
efaemu: uverbs0.1: process \d+: alloc PD: ok
efaemu: uverbs0.1: closed
efaemu:            1 opens of the device
efaemu:            2 ioctls
efaemu: +\d+ other calls that were trapped
$`, log)
}

func TestHost(t *testing.T) {
	f := fabric(t)
	gid := func(flags ...string) string {
		args := append([]string{"run", f}, flags...)
		status, out, log := efaemu(t, append(args, "--", "sh", "-c", "cat $SYSFS_PATH/class/infiniband/efa_0/ports/1/gids/0")...)
		require.Zero(t, status, log)
		return out
	}
	require.Equal(t, gid(), gid())
	require.Equal(t, gid("-host=a"), gid("-host=a"))
	require.NotEqual(t, gid(), gid("-host=a"))
	require.NotEqual(t, gid("-host=b"), gid("-host=a"))
}

func TestPcap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcapng")
	status, _, log := efaemu(t, "run", fabric(t), "-pcap", file, "--", os.Args[0])
	require.Zero(t, status, log)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(b, []byte{0x0a, 0x0d, 0x0d, 0x0a}))

	status, _, log = efaemu(t, "run", fabric(t), "-pcap", "/proc/nowhere", "--", "true")
	require.Equal(t, 125, status)
	require.Contains(t, log, "/proc/nowhere")
}

// A signal for the emulator is the program's to answer, twice; then both end.
func TestSignals(t *testing.T) {
	const ready = `echo ready; while :; do read x; done`
	for _, c := range []struct {
		name, script string
		again        bool
		status       int
	}{
		{"answered", `trap 'exit 7' TERM; ` + ready, false, 7},
		{"deadly", ready, false, 143},
		{"overheard", `trap '' TERM; ` + ready, true, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(program, "run", fabric(t), "--", "sh", "-c", c.script)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", line)
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			sent := false
			require.Eventually(t, func() bool {
				if !sent || c.again {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					sent = true
				}
				_, _ = in.Write([]byte("\n")) // a shell runs traps between commands
				select {
				case <-ended:
					return true
				default:
					return false
				}
			}, time.Minute, 10*time.Millisecond)
			require.Equal(t, c.status, cmd.ProcessState.ExitCode())
		})
	}
}
