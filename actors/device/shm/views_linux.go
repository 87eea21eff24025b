package shm

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// maxViews bounds how many regions of others a device has mapped. A mapping costs
// no memory while its region is open; beyond the bound the least recently used one
// is dropped.
const maxViews = 1024

// views is the table of the regions that a device has mapped, of others or its own.
// Finding one takes no lock. Regions that were closed or whose owners died are
// dropped when a request or the watcher finds them.
type views struct {
	folder *folder
	mapped func() // called when there is one more
	clock  atomic.Uint64
	byKey  atomic.Pointer[map[uint64]*view] // never changed, only replaced
	mu     sync.Mutex                       // held to replace it

	procs   map[processID]*proc // of views; guarded by mu
	denials denials
}

func newViews(f *folder, log *slog.Logger) *views {
	vs := &views{folder: f, mapped: func() {}, procs: map[processID]*proc{}, denials: denials{log: log}}
	vs.byKey.Store(&map[uint64]*view{})
	return vs
}

// carry carries out a WRRead or WRWrite on the region of a key.
func (vs *views) carry(wr *device.SendWR, key uint64, g grant) device.Status {
	for {
		v, fresh, err := vs.hold(key)
		if err != nil {
			return vs.statusOf(err)
		}
		open, err := vs.use(v, wr, &g)
		switch {
		case !open && (fresh || errors.Is(err, errCut)):
			return device.StatusBadAddress
		case !open: // another region may have the key by now
		case err != nil:
			return vs.statusOf(err)
		default:
			return device.StatusOK
		}
	}
}

// use serves a request and releases the view, also if the bytes are in memory of ours that was
// cut: then it panics. False: the region is closed, or cut.
func (vs *views) use(v *view, wr *device.SendWR, g *grant) (open bool, err error) {
	defer v.release()
	if open, err = v.serve(wr, g); !open || v.of != nil && v.of.over.Load() {
		vs.drop(v)
	}
	return open, err
}

// statusOf is the status of a request that failed with err.
func (vs *views) statusOf(err error) device.Status {
	if errors.Is(err, errDenied) || errors.Is(err, errHidden) {
		vs.denials.add("RDMA with memory of another process ends with a bad address", err)
	}
	for _, bad := range []error{errNoRegion, errNotSealed, errElsewhere, errHidden, unix.ENOENT, errNoSegment, errOver, errFault, errDenied} {
		if errors.Is(err, bad) {
			return device.StatusBadAddress
		}
	}
	return device.StatusQPInternal // out of descriptors or mappings, say
}

// hold finds the region of a key, or maps it: then fresh is true. The caller must
// release it.
func (vs *views) hold(key uint64) (v *view, fresh bool, err error) {
	if v := (*vs.byKey.Load())[key]; v != nil && v.hold() {
		v.used.Store(vs.clock.Add(1))
		return v, false, nil
	}
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := (*vs.byKey.Load())[key]; v != nil && v.hold() {
		return v, false, nil
	}
	if v, err = vs.folder.mapRegion(key); err != nil {
		return nil, true, err
	}
	if v.hdr.kind == kindProcess {
		if v.of, err = vs.proc(v.hdr.process); err != nil {
			v.release()
			return nil, true, err
		}
	}
	v.hold()
	v.used.Store(vs.clock.Add(1))
	vs.change(func(m map[uint64]*view) {
		if len(m) >= maxViews {
			v := oldest(m)
			delete(m, uint64(v.hdr.key))
			v.release()
		}
		m[key] = v
	})
	vs.mapped()
	return v, true, nil
}

func oldest(m map[uint64]*view) (o *view) {
	for _, v := range m {
		if o == nil || v.used.Load() < o.used.Load() {
			o = v
		}
	}
	return o
}

// change replaces the table. Preconditions: vs.mu is locked.
func (vs *views) change(f func(map[uint64]*view)) {
	m := maps.Clone(*vs.byKey.Load())
	f(m)
	vs.byKey.Store(&m)
}

// proc finds the process of a region, or checks that it is there. The caller must
// release it. Preconditions: vs.mu is locked.
func (vs *views) proc(id processID) (*proc, error) {
	if p := vs.procs[id]; p != nil && !p.over.Load() && p.users.join() {
		return p, nil
	}
	maps.DeleteFunc(vs.procs, func(_ processID, p *proc) bool { return p.users.n.Load() == 0 })
	p, err := findProcess(id)
	if err == nil {
		vs.procs[id] = p
	}
	return p, err
}

// drop takes v out of the table. It is unmapped after the last copy.
func (vs *views) drop(v *view) { vs.dropIf(func(o *view) bool { return o == v }) }

// prune drops the regions that are closed.
func (vs *views) prune() {
	vs.dropIf(func(v *view) (closed bool) {
		return v.safely(func() { closed = !v.control().holds() }) != nil || closed
	})
}

// clear takes all out.
func (vs *views) clear() { vs.dropIf(func(*view) bool { return true }) }

func (vs *views) dropIf(stale func(*view) bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	var out []*view
	for _, v := range *vs.byKey.Load() {
		if stale(v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return
	}
	vs.change(func(m map[uint64]*view) {
		for _, v := range out {
			delete(m, uint64(v.hdr.key))
		}
	})
	for _, v := range out {
		v.release()
	}
}

// size returns how many regions are mapped.
func (vs *views) size() int { return len(*vs.byKey.Load()) }
