package mr

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/efactor/efactor/wire"
)

// ByOffset is set in the address of an efa_rma_iov that names an export, beside EmulatedOnly in
// its key: the other bits are an offset in the export, and its key, which no device knows.
const ByOffset = uint64(1) << 63

// namesExport reports whether iov names an export. No address of memory has the bit.
func namesExport(iov wire.RMAIOV) bool { return iov.Addr&ByOffset != 0 && iov.Key&EmulatedOnly != 0 }

// MaxExports is the most exports of a table.
const MaxExports = 4096

// The reasons why there is no export.
var (
	ErrKeyTaken   = errors.New("mr: another export has the key")
	ErrManyExport = errors.New("mr: no room for another export")
)

// Export is a part of a region under a key of its own, with rights of its own. Only emulated
// subprotocols reach it, since devices draw their keys themselves.
type Export struct {
	region *Region
	mem    []byte
	access Access
}

// exports finds them by key. A map is never changed, the next takes its place.
type exports struct {
	now atomic.Pointer[map[uint64]*Export]
}

func (e *exports) load() map[uint64]*Export {
	if m := e.now.Load(); m != nil {
		return *m
	}
	return nil
}

// Export gives the bytes of mem, which lie in r, the key, for the accesses in a. Of the key
// the bits of DeviceKey count. If r was retired, the export is refused as r is.
func (t *Table) Export(r *Region, mem []byte, key uint64, a Access) error {
	key = DeviceKey(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.exports.load()
	if old[key] != nil {
		return ErrKeyTaken
	}
	if len(old) >= MaxExports {
		return ErrManyExport
	}
	now := maps.Clone(old)
	if now == nil {
		now = map[uint64]*Export{}
	}
	now[key] = &Export{r, mem, a}
	r.exports++
	t.exports.now.Store(&now)
	return nil
}

// Unexport takes an export of r back: its key is free, and means nothing. It reports whether
// there was one.
func (t *Table) Unexport(r *Region, key uint64) bool {
	key = DeviceKey(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.exports.load()[key]
	if x == nil || x.region != r {
		return false
	}
	t.forget(func(k uint64, _ *Export) bool { return k == key })
	return true
}

// forget takes out the exports that gone names. The caller holds mu.
func (t *Table) forget(gone func(key uint64, x *Export) bool) {
	old := t.exports.load()
	now := maps.Clone(old)
	maps.DeleteFunc(now, gone)
	if len(now) == len(old) {
		return
	}
	t.exports.now.Store(&now)
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if now[key] == nil {
			t.past[t.npast%maxPast] = exported(key)
			t.npast++
		}
	}
}

// exported is the key of an export among those of devices, see Table.past.
func exported(key uint64) pathKey { return pathKey{key: DeviceKey(key) | ByOffset} }

// resolveExport is Resolve for a name of an export.
func (t *Table) resolveExport(iov wire.RMAIOV, want Access) (*Region, []byte, error) {
	x := t.exports.load()[DeviceKey(iov.Key)]
	if x == nil {
		return nil, nil, ErrKey
	}
	if x.access&want != want {
		return nil, nil, ErrRight
	}
	off, size := iov.Addr&^ByOffset, uint64(len(x.mem))
	if off > size || iov.Len > size-off {
		return nil, nil, ErrRange
	}
	return x.region, x.mem[off : off+iov.Len : off+iov.Len], nil
}
