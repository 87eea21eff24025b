//go:build linux && (amd64 || arm64)

package nthcall

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// errInjected is the cause of an error of a device that is nobody's known one.
var errInjected = fmt.Errorf("nthcall: the call of the device fails: %w", unix.EIO)

var errInternal = errors.New("nthcall: the device fails")

// deviceErrors are the errors that a method may give, by name; the first of those that
// are not listed is errInjected.
var deviceErrors = map[string]error{
	"EIO":       errInjected,
	"no memory": device.ErrNoMemory,
	"full":      device.ErrQueueFull,
	internal:    errInternal,
	unsent:      fmt.Errorf("%w: %w", device.ErrUnsent, unix.EMFILE),
}

// internal is no error of PostSend: the request ends with a status by which the device says
// that it could not carry it out.
const internal = "internal"

// unsent is what PostSend says of a system call that failed.
const unsent = "unsent"

// methodErrors are the names of the errors of a method.
func methodErrors(method string) []string {
	switch method {
	case "Device.Register", "Device.Alloc":
		return []string{"no memory", "EIO"}
	case "QP.PostSend":
		return []string{unsent, "full", internal}
	}
	return []string{"EIO"}
}

// faults counts calls of the methods of a device and has one of them fail.
type faults struct {
	row row

	mu     sync.Mutex
	counts map[string]int
	hit    bool
}

func newFaults(r row) *faults { return &faults{row: r, counts: make(map[string]int)} }

// fail is called at the beginning of each method.
func (f *faults) fail(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[method]++
	if method != f.row.Method || f.counts[method] != f.row.N {
		return nil
	}
	f.hit = true
	return deviceErrors[f.row.Err]
}

func (f *faults) seen() (counts map[string]int, hit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts), f.hit
}

// faultyDevice is a device whose calls may fail. A test holds it to the interface.
type faultyDevice struct {
	device.Device
	f *faults
}

func (d *faultyDevice) OpenQP(cfg device.QPConfig) (device.QP, error) {
	if err := d.f.fail("Device.OpenQP"); err != nil {
		return nil, err
	}
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &faultyQP{QP: qp, f: d.f}, nil
}

func (d *faultyDevice) Register(mem []byte, a device.Access) (device.MR, error) {
	if err := d.f.fail("Device.Register"); err != nil {
		return nil, err
	}
	return d.f.region(d.Device.Register(mem, a))
}

func (d *faultyDevice) Alloc(n int, a device.Access) (device.MR, error) {
	if err := d.f.fail("Device.Alloc"); err != nil {
		return nil, err
	}
	return d.f.region(d.Device.Alloc(n, a))
}

func (d *faultyDevice) RegisterDMABuf(fd int, off uint64, n int, a device.Access) (device.MR, error) {
	if err := d.f.fail("Device.RegisterDMABuf"); err != nil {
		return nil, err
	}
	return d.f.region(d.Device.RegisterDMABuf(fd, off, n, a))
}

func (d *faultyDevice) RegisterForeign(pid int, addr uint64, n int, a device.Access) (device.MR, error) {
	if err := d.f.fail("Device.RegisterForeign"); err != nil {
		return nil, err
	}
	return d.f.region(d.Device.RegisterForeign(pid, addr, n, a))
}

// Close closes, and then says that it could not: what a system call leaves behind that
// fails is another test's.
func (d *faultyDevice) Close() error {
	err := d.f.fail("Device.Close")
	if bad := d.Device.Close(); bad != nil {
		return bad
	}
	return err
}

type faultyMR struct {
	device.MR
	f *faults
}

func (f *faults) region(mr device.MR, err error) (device.MR, error) {
	if err != nil {
		return nil, err
	}
	return &faultyMR{mr, f}, nil
}

func (m *faultyMR) Close() error {
	err := m.f.fail("MR.Close")
	if bad := m.MR.Close(); bad != nil {
		return bad
	}
	return err
}

type faultyQP struct {
	device.QP
	f      *faults
	failed []device.Completion // of requests that the device does not have
}

func (q *faultyQP) SetRNRRetry(n uint8) error {
	if err := q.f.fail("QP.SetRNRRetry"); err != nil {
		return err
	}
	return q.QP.SetRNRRetry(n)
}

func (q *faultyQP) CreateAH(gid device.GID) (device.AH, error) {
	if err := q.f.fail("QP.CreateAH"); err != nil {
		return 0, err
	}
	return q.QP.CreateAH(gid)
}

func (q *faultyQP) Lend(path uint8, lkey uint32, mem []byte) (uint64, error) {
	if err := q.f.fail("QP.Lend"); err != nil {
		return 0, err
	}
	return q.QP.Lend(path, lkey, mem)
}

func (q *faultyQP) LendPlain(ah device.AH, qpn uint16, mem []byte) (key, addr uint64, err error) {
	if err := q.f.fail("QP.LendPlain"); err != nil {
		return 0, 0, err
	}
	return q.QP.LendPlain(ah, qpn, mem)
}

func (q *faultyQP) Relend(path uint8, key uint64, mem []byte) error {
	if err := q.f.fail("QP.Relend"); err != nil {
		return err
	}
	return q.QP.Relend(path, key, mem)
}

func (q *faultyQP) Shut(ah device.AH, qpn uint16, qkey uint32) error {
	if err := q.f.fail("QP.Shut"); err != nil {
		return err
	}
	return q.QP.Shut(ah, qpn, qkey)
}

func (q *faultyQP) HoldBack(ah device.AH, qpn uint16, on bool, turn uint32) error {
	if err := q.f.fail("QP.HoldBack"); err != nil {
		return err
	}
	return q.QP.HoldBack(ah, qpn, on, turn)
}

func (q *faultyQP) Why(ah device.AH) error {
	if err := q.f.fail("QP.Why"); err != nil {
		return err
	}
	return q.QP.Why(ah)
}

func (q *faultyQP) DestroyAH(ah device.AH) error {
	err := q.f.fail("QP.DestroyAH")
	if bad := q.QP.DestroyAH(ah); bad != nil {
		return bad
	}
	return err
}

func (q *faultyQP) PostSend(wr *device.SendWR) error {
	switch err := q.f.fail("QP.PostSend"); {
	case errors.Is(err, errInternal):
		q.failed = append(q.failed, device.Completion{ID: wr.ID, Op: device.OpSend, Status: device.StatusQPInternal})
		return nil
	case err != nil:
		return err
	}
	return q.QP.PostSend(wr)
}

// Poll gives the completions of what was never posted first.
func (q *faultyQP) Poll(c []device.Completion) int {
	n := copy(c, q.failed)
	q.failed = q.failed[n:]
	return n + q.QP.Poll(c[n:])
}

// Arm keeps the shard awake for them.
func (q *faultyQP) Arm() bool { return len(q.failed) == 0 && q.QP.Arm() }

func (q *faultyQP) Close() error {
	err := q.f.fail("QP.Close")
	if bad := q.QP.Close(); bad != nil {
		return bad
	}
	return err
}
