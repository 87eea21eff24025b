//go:build linux && (amd64 || arm64)

package trap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

func init() {
	roles["looks"] = looks
	roles["others"] = others
	roles["requests"] = requests
	roles["writes"] = writes
}

// play runs a role to its end, which must be a good one.
func play(t *testing.T, cfg Config, role string) (output string) {
	t.Helper()
	status, output, err := run(t, cfg, role).wait()
	require.NoError(t, err)
	require.Zero(t, status)
	return output
}

func check(what string, ok bool, got ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: %v", what, got)
}

// looks asks for the device in every way that there is.
func looks([]string) error {
	path, err := unix.BytePtrFromString(DevicePath)
	if err != nil {
		return err
	}
	fd, err := unix.Open(DevicePath, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	how := unix.OpenHow{Flags: unix.O_RDWR | unix.O_CLOEXEC}
	fd2, err := unix.Openat2(unix.AT_FDCWD, DevicePath, &how)
	if err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd2), unix.F_GETFD, 0)
	if err = errors.Join(err, check("openat2", flags == unix.FD_CLOEXEC, flags)); err != nil {
		return err
	}

	var want unix.Stat_t
	if err := unix.Stat(DevicePath, &want); err != nil {
		return err
	}
	if err := isDeviceStat(&want); err != nil {
		return err
	}
	dev, err := os.ReadFile(filepath.Join(os.Getenv("SYSFS_PATH"), "class/infiniband_verbs/uverbs0/dev"))
	number := fmt.Sprintf("%d:%d\n", unix.Major(want.Rdev), unix.Minor(want.Rdev))
	if err = errors.Join(err, check("sysfs", string(dev) == number, string(dev))); err != nil {
		return err
	}
	for name, call := range map[string]func(*unix.Stat_t) error{
		"fstat":    func(st *unix.Stat_t) error { return unix.Fstat(fd, st) },
		"lstat":    func(st *unix.Stat_t) error { return unix.Lstat(DevicePath, st) },
		"fstatat":  func(st *unix.Stat_t) error { return unix.Fstatat(unix.AT_FDCWD, DevicePath, st, 0) },
		"empty":    func(st *unix.Stat_t) error { return unix.Fstatat(fd, "", st, unix.AT_EMPTY_PATH) },
		"raw stat": func(st *unix.Stat_t) error { return rawStat(path, st) },
	} {
		var st unix.Stat_t
		err := call(&st)
		if err = errors.Join(err, check(name, st == want, st)); err != nil {
			return err
		}
	}
	for name, call := range map[string]func(*unix.Statx_t) error{
		"statx": func(st *unix.Statx_t) error {
			return unix.Statx(unix.AT_FDCWD, DevicePath, 0, unix.STATX_BASIC_STATS, st)
		},
		"statx, empty": func(st *unix.Statx_t) error {
			return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, st)
		},
	} {
		var st unix.Statx_t
		err := call(&st)
		same := uint32(st.Mode) == want.Mode && st.Ino == want.Ino && st.Nlink == 1 && st.Mtime.Sec == want.Mtim.Sec &&
			unix.Mkdev(st.Rdev_major, st.Rdev_minor) == want.Rdev && unix.Mkdev(st.Dev_major, st.Dev_minor) == want.Dev
		if err = errors.Join(err, check(name, same, st)); err != nil {
			return err
		}
	}
	for name, err := range map[string]error{
		"directory": second(unix.Open(DevicePath, unix.O_DIRECTORY, 0)),
		"exclusive": second(unix.Open(DevicePath, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o600)),
		"bad stat":  second(0, rawStat(path, nil)),
	} {
		fmt.Println(name, err)
	}
	return nil
}

func second(_ int, err error) error { return err }

func TestLooksLikeADevice(t *testing.T) {
	d, stats := newFake(), new(Stats)
	out := play(t, Config{Device: d, Stats: stats}, "looks")
	require.ElementsMatch(t, []string{"directory not a directory", "exclusive file exists", "bad stat bad address"},
		strings.Split(strings.TrimSpace(out), "\n"))
	require.Equal(t, int64(2), d.opened.Load())
	require.Zero(t, d.live())
	require.Equal(t, 2, int(stats.Opens.Load()))
	require.Equal(t, 9, int(stats.Looks.Load()))
}

// others makes calls about other files, right and wrong ones, and prints each
// result. They include names that are nearly the device's.
func others([]string) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "uverbs0"), []byte("mine"), 0o600); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	b, err := os.ReadFile("uverbs0")
	fmt.Println("relative:", string(b), err)
	if _, err := unix.Open(DevicePath, unix.O_RDWR, 0); err != nil {
		return err
	}
	fd, err := unix.MemfdCreate(namePrefix+"1", 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	fmt.Println("memfd of that name:", st.Mode&unix.S_IFMT == unix.S_IFREG, err)
	_, _, err = request(fd, opCount, 0)
	fmt.Println("its ioctl:", err)
	_, _, err = request(999, opCount, 0)
	fmt.Println("ioctl of nothing:", err)
	fmt.Println("fstat of nothing:", unix.Fstat(999, &st))
	for _, p := range []string{DevicePath + "0", DevicePath[:len(DevicePath)-1], "/dev/infiniband", "", strings.Repeat("x", 5000)} {
		fmt.Println("no such name:", second(unix.Open(p, unix.O_RDWR, 0)), unix.Stat(p, &st))
	}
	for _, addr := range []uintptr{0, 1, ^uintptr(0)} {
		_, _, errno := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), addr, 0, 0, 0, 0) // AT_FDCWD
		fmt.Println("bad address:", errno)
	}
	fmt.Println("path before nothing:", second(openAtBorder("/")))
	fd, err = openAtBorder(DevicePath)
	fmt.Println("device's before nothing:", fd > 0, err)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	fmt.Println("netlink of rdma:", err)
	how := unix.OpenHow{Flags: unix.O_RDWR, Resolve: 1 << 40}
	fmt.Println("openat2:", second(unix.Openat2(unix.AT_FDCWD, "/", &how)))
	path, err := unix.BytePtrFromString(DevicePath)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_OPENAT2, 0, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&how)), 8, 0, 0)
	fmt.Println("short openat2:", errno)
	_, _, errno = unix.Syscall6(unix.SYS_OPENAT2, 0, uintptr(unsafe.Pointer(path)), 8, unix.SizeofOpenHow, 0, 0)
	fmt.Println("bad openat2:", errno)
	return nil
}

// openAtBorder opens a path whose last byte is followed by an unmapped page.
func openAtBorder(path string) (int, error) {
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return -1, err
	}
	copy(b[page-len(path)-1:], path)
	if err := unix.Mprotect(b[page:], unix.PROT_NONE); err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&b[page-len(path)-1])), 0, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func TestOtherFilesPassThrough(t *testing.T) {
	d := newFake()
	out := play(t, Config{Device: d}, "others")
	const none = "no such name: no such file or directory no such file or directory\n"
	require.Equal(t, `relative: mine <nil>
memfd of that name: true <nil>
its ioctl: inappropriate ioctl for device
ioctl of nothing: bad file descriptor
fstat of nothing: bad file descriptor
`+none+none+none+none+`no such name: file name too long file name too long
bad address: bad address
bad address: bad address
bad address: bad address
path before nothing: <nil>
device's before nothing: true <nil>
netlink of rdma: protocol not supported
openat2: invalid argument
short openat2: invalid argument
bad openat2: bad address
`, out)
	require.Equal(t, int64(2), d.opened.Load())
	require.Zero(t, d.live())
}

func TestOpenFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("wrapped: %w", unix.EMFILE), "EMFILE"},
		{errors.New("broken"), "EIO"},
	} {
		d := newFake()
		d.refusal = c.err
		p := puppeteer{run(t, Config{Device: d}, "puppet"), d}
		require.Equal(t, c.want, p.do("open %d", unix.O_RDWR))
	}
}

// requests uses what a task can do.
func requests([]string) error {
	fd, err := unix.Open(DevicePath, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	page := os.Getpagesize()
	for i, prot := range []int{unix.PROT_READ, unix.PROT_WRITE} {
		if _, err := unix.Mmap(fd, int64(i*2*page), (i+1)*page, prot, unix.MAP_SHARED); err != nil {
			return err
		}
	}
	if _, err := unix.Mmap(fd, int64(8*page), page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE); err != nil {
		return err
	}
	if _, _, err := request(fd, opMaps, 0); err != nil {
		return err
	}

	runtime.LockOSThread()
	other := make(chan uint64)
	go func() { // on another thread: one of the two is not the process' first
		pid, _, _ := request(fd, opPID, 0)
		other <- pid
	}()
	pid, _, err := request(fd, opPID, 0)
	want := uint64(os.Getpid())
	if err = errors.Join(err, check("pid", pid == want && <-other == want)); err != nil {
		return err
	}
	for _, cloexec := range []uint64{0, 1} {
		got, _, err := request(fd, opInstall, cloexec)
		if err != nil {
			return err
		}
		flags, err := unix.FcntlInt(uintptr(got), unix.F_GETFD, 0)
		var b [10]byte
		n, rerr := unix.Read(int(got), b[:])
		if err = errors.Join(err, rerr, check("installed", flags == int(cloexec) && string(b[:n]) == "hello", flags, b)); err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Fstat(int(got), &st)
		dev, ino, rerr := request(fd, opStatFD, got)
		if err = errors.Join(err, rerr, check("stat", dev == st.Dev && ino == st.Ino, dev, ino, st)); err != nil {
			return err
		}
	}
	_, _, err = request(fd, opStatFD, 999)
	fmt.Println("no descriptor:", err)
	_, _, err = request(fd, opFail, uint64(unix.ENOSPC))
	fmt.Println("refused:", err)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), abi.IoctlVerbs, 8)
	fmt.Println("bad address:", errno)
	_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	fmt.Println("other ioctl:", err)
	return nil
}

func TestTask(t *testing.T) {
	d := newFake()
	out := play(t, Config{Device: d}, "requests")
	require.Equal(t, `no descriptor: bad file descriptor
refused: no space left on device
bad address: bad address
other ioctl: inappropriate ioctl for device
`, out)
	page := uint64(os.Getpagesize())
	for i := range d.maps {
		require.NotZero(t, d.maps[i].Start)
		d.maps[i].Start = 0
	}
	require.ElementsMatch(t, []kernel.Mapping{
		{Length: page, Prot: unix.PROT_READ, Shared: true},
		{Offset: 2 * page, Length: 2 * page, Prot: unix.PROT_WRITE, Shared: true},
		{Offset: 8 * page, Length: page, Prot: unix.PROT_READ | unix.PROT_WRITE},
	}, d.maps)
}

func TestParseMapping(t *testing.T) {
	m, id, ok := parseMapping("7f1c4e5d6000-7f1c4e5d8000 r-xp 00003000 1f:103 2051    /memfd:uverbs0.1 (deleted)")
	require.True(t, ok)
	require.Equal(t, kernel.Mapping{Start: 0x7f1c4e5d6000, Length: 0x2000, Offset: 0x3000, Prot: unix.PROT_READ | unix.PROT_EXEC}, m)
	require.Equal(t, fileID{unix.Mkdev(0x1f, 0x103), 2051}, id)
	for _, line := range []string{
		"", "x", "1-2 rw-s 0 00:01", "12 rw-s 0 00:01 5", "1-2 rw-s 0 0001 5", "1-2 rw- 0 00:01 5",
		"1-g rw-s 0 00:01 5", "1-2 rw-s 0 00:01 f", "3-2 rw-s 0 00:01 5", "1-2 rw-s -1 00:01 5",
	} {
		_, _, ok := parseMapping(line)
		require.False(t, ok, line)
	}
}

// writes gives a command in the old way, and writes elsewhere.
func writes([]string) error {
	fd, err := unix.Open(DevicePath, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, make([]byte, 24))
	fmt.Println(n, err)
	return nil
}

func TestStrictRefusesWrite(t *testing.T) {
	log, stats := new(finding.Log), new(Stats)
	out := play(t, Config{Device: newFake(), Strict: true, Findings: log, Stats: stats}, "writes")
	require.Equal(t, "-1 invalid argument\n", out)
	found, n := log.Take()
	require.Equal(t, 1, n)
	require.Equal(t, "legacy-write", found[0].Rule)
	require.Equal(t, "uverbs0.1", found[0].Where)
	require.Contains(t, found[0].Text, "24 bytes")
	require.Equal(t, 1, int(stats.Writes.Load()))

	out = play(t, Config{Device: newFake(), Findings: log}, "writes")
	require.Equal(t, "24 <nil>\n", out, "not strict: nobody sees it")
	_, n = log.Take()
	require.Zero(t, n)
}
