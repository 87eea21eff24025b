//go:build unix

package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/internal/fakesysfs"
)

// refused checks a refusal: one line that names the device and says what to do.
func refused(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	var r *Refusal
	require.ErrorAs(t, err, &r)
	require.ErrorIs(t, err, kind)
	require.NotEmpty(t, r.Do)
	require.NotContains(t, err.Error(), "\n")
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}

// TestNoDevice: a host without a card, without sysfs, with a card that has no driver, and
// without the module that leads to it.
func TestNoDevice(t *testing.T) {
	for _, h := range []Host{host(fakesysfs.New(t)), {Root: filepath.Join(t.TempDir(), "none")}} {
		found, err := h.List()
		require.NoError(t, err)
		refused(t, found.Err(), ErrNoDevice, "no EFA device", "interface of type efa", "shm or tcp")
	}

	f := fakesysfs.New(t)
	_, _, pci := f.Card(0, "efa_0")
	f.Remove("class/infiniband_verbs/uverbs0")
	found, err := host(f).List()
	require.NoError(t, err)
	require.Len(t, found.Skipped, 1)
	refused(t, found.Err(), ErrNoDevice, "efa_0: ", "modprobe ib_uverbs")

	f.Remove("class/infiniband/efa_0")
	f.Remove(pci + "/driver")
	found, err = host(f).List()
	require.NoError(t, err)
	require.Len(t, found.Skipped, 1)
	refused(t, found.Err(), ErrNoDevice, "0000:00:06.0: ", "modprobe efa")
}

// TestOldKernel: another version of the kernel's interface, or of the module's.
func TestOldKernel(t *testing.T) {
	f := fakesysfs.New(t)
	_, verbs, _ := f.Card(0, "efa_0")
	for _, s := range []string{"5", "", "six"} {
		f.File("class/infiniband_verbs/abi_version", s)
		_, err := host(f).List()
		refused(t, err, ErrKernel, "Linux 6.1 or newer")
	}
	f.Remove("class/infiniband_verbs/abi_version")
	_, err := host(f).List()
	refused(t, err, ErrKernel, "no such file")

	f.File("class/infiniband_verbs/abi_version", "6")
	f.File(verbs+"/abi_version", "0")
	found, err := host(f).List()
	require.NoError(t, err)
	refused(t, found.Err(), ErrKernel, "efa_0: the module efa has ABI version", "Amazon's newer module")
}

// TestExplain: what is said of each error of the kernel's.
func TestExplain(t *testing.T) {
	n := &NIC{Name: "efa_0", Uverbs: "/dev/infiniband/uverbs0"}
	for _, c := range []struct {
		err  error
		kind error
		do   string
	}{
		{unix.ENOENT, ErrNoDevice, "docker run --device /dev/infiniband/uverbs0"},
		{unix.EACCES, ErrPermission, "by its group or a rule of udev"},
		{unix.EPERM, ErrPermission, "rdma dev set efa_0 netns"},
		{unix.ENODEV, ErrNoDevice, "dmesg"},
		{unix.EIO, ErrNoDevice, "dmesg"},
		{unix.EPROTONOSUPPORT, ErrKernel, "Linux 6.1"},
		{unix.ENOTTY, ErrKernel, "Linux 6.1"},
		{unix.EOPNOTSUPP, ErrLimit, "newer release"},
		{unix.ENOMEM, ErrNoRoom, "no room for one more"},
		{unix.ENETDOWN, ErrPort, "the port is not active"},
	} {
		refused(t, n.Explain(&fs.PathError{Op: "open", Path: n.Uverbs, Err: c.err}), c.kind, n.Uverbs+": ", c.do)
	}
	other := errors.New("something else")
	require.Same(t, other, n.Explain(other))
	require.ErrorIs(t, n.Explain(unix.EACCES), fs.ErrPermission)
	require.NotContains(t, n.Explain(unix.ENOENT).Error(), "ib_uverbs", "sysfs has the device: the module is there")
	require.NotContains(t, n.Explain(unix.ENOMEM).Error(), "ulimit", "nothing was locked")
	for err, kind := range map[unix.Errno]error{
		unix.ENOENT: errno.ErrNoData, unix.EOPNOTSUPP: errno.ErrNotSupported, unix.ENOMEM: errno.ErrNoMemory, unix.ENETDOWN: unix.ENETDOWN,
	} {
		require.ErrorIs(t, n.Explain(err), kind)
	}
}

// TestTry: the device's file is opened, and must be the device.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	n := &NIC{Name: "efa_0", Uverbs: filepath.Join(dir, "uverbs0"), Major: 231, Minor: 192}
	refused(t, Host{}.Try(n), ErrNoDevice, n.Uverbs, "the file is missing")
	require.NoError(t, os.WriteFile(n.Uverbs, nil, 0o600))
	refused(t, Host{}.Try(n), ErrNoDevice, "it is not the device 231:192")
	if os.Getuid() != 0 { // root may open everything
		require.NoError(t, os.Chmod(n.Uverbs, 0))
		refused(t, Host{}.Try(n), ErrPermission, "permission denied")
	}
	require.NoError(t, Host{}.Try(&NIC{Uverbs: "/dev/null", Major: 1, Minor: 3}))
}

// TestMemlock: the limit is too low, enough, or does not hold.
func TestMemlock(t *testing.T) {
	refused(t, memlock(64<<10, false, 16<<20), ErrMemlock, "64 KiB", "16384 KiB", "LimitMEMLOCK=infinity", "CAP_IPC_LOCK")
	require.NoError(t, memlock(16<<20, false, 16<<20))
	require.NoError(t, memlock(0, true, 16<<20))
	require.NoError(t, Host{}.Memlock(0))
}
