//go:build linux

package driver_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// faulty is a system whose n-th call fails.
type faulty struct {
	uverbs.Kernel
	n, calls int
	err      error
	mapped   map[*byte]int
}

func (f *faulty) fail() error {
	if f.calls++; f.calls == f.n {
		return f.err
	}
	return nil
}

func (f *faulty) Open(path string) (uverbs.File, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	file, err := f.Kernel.Open(path)
	return &faultyFile{file, f}, err
}

func (f *faulty) Map(n int) ([]byte, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	b, err := f.Kernel.Map(n)
	f.mapped[&b[0]] = n
	return b, err
}

func (f *faulty) Unmap(b []byte) error {
	delete(f.mapped, &b[0])
	return f.Kernel.Unmap(b)
}

type faultyFile struct {
	uverbs.File
	f *faulty
}

func (f *faultyFile) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	if err := f.f.fail(); err != nil {
		return err
	}
	return f.File.Ioctl(cmd, arg)
}

func (f *faultyFile) Mmap(key int64, length, prot, flags int) ([]byte, error) {
	if err := f.f.fail(); err != nil {
		return nil, err
	}
	return f.File.Mmap(key, length, prot, flags)
}

// life uses a device: two queue pairs, handles, regions, and everything is closed in one
// of several orders. The first error ends the use, not the closing.
func life(k uverbs.Kernel, buffer, order int) (errs []error) {
	keep := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	d, err := uverbs.Open(uverbs.Config{Path: "/dev/infiniband/uverbs0", Kernel: k})
	if !keep(err) {
		return errs
	}
	var closers []func() error
	use := func() {
		for i := range 2 {
			qp, err := d.OpenQP(device.QPConfig{SQDepth: 8, RQDepth: 8, QKey: uint32(i)})
			if !keep(err) {
				return
			}
			closers = append(closers, qp.Close)
			for range 2 {
				if ah, err := qp.CreateAH(d.Info().GID); keep(err) && i == 0 {
					closers = append(closers, func() error {
						if err := qp.DestroyAH(ah); !errors.Is(err, device.ErrClosed) {
							return err
						}
						return nil
					})
				}
			}
		}
		a, err := d.Alloc(10_000, device.LocalWrite|device.RemoteRead)
		if !keep(err) {
			return
		}
		closers = append(closers, a.Close)
		b, err := d.Register(make([]byte, 10_000), device.RemoteRead)
		if !keep(err) {
			return
		}
		closers = append(closers, b.Close)
		c, err := d.RegisterDMABuf(buffer, 0, 10_000, device.RemoteRead)
		if keep(err) {
			closers = append(closers, c.Close)
		}
	}
	use()
	for i := range closers {
		if order&1 == 1 {
			i = len(closers) - 1 - i
		}
		i = (i + order/2) % len(closers)
		keep(closers[i]())
	}
	keep(d.Close())
	return errs
}

// TestNthCall: each call of the system fails, with every order of closing. An error says
// so, and nothing is left behind.
func TestNthCall(t *testing.T) {
	fab, err := sim.New(sim.Config{})
	require.NoError(t, err)
	d, err := fab.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	card, err := driver.New(d, named(t, "efa", nil))
	require.NoError(t, err)
	defer func() { require.NoError(t, card.Close()) }()
	buffer, _ := newBuffer(t, 10_000)
	defer unix.Close(buffer)
	round := func(n, order int, fault error) int {
		before := descriptors(t)
		f := &faulty{Kernel: card.System(), n: n, err: fault, mapped: map[*byte]int{}}
		errs := life(f, buffer, order)
		what := fmt.Sprintf("call %d, order %d, %v", n, order, fault)
		require.Equal(t, f.calls < n || n == 0, len(errs) == 0, "%s: %v", what, errs)
		if len(errs) > 0 {
			require.ErrorIs(t, errors.Join(errs...), fault, what)
		}
		require.Equal(t, kernel.Stats{}, card.Kernel.Stats(), what)
		require.Empty(t, f.mapped, what)
		require.Equal(t, before, descriptors(t), what)
		return f.calls
	}
	for order := range 6 {
		calls := round(0, order, nil)
		require.Greater(t, calls, 50)
		for n := 1; n <= calls; n++ {
			for _, fault := range []error{unix.ENOMEM, unix.EIO} {
				round(n, order, fault)
			}
		}
	}
	found, _ := card.Findings.Take()
	require.Empty(t, found)
}

// descriptors counts those of this process.
func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	return len(all)
}
