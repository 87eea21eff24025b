package nic

import "github.com/efactor/efactor/actors/device"

// ahTable holds the address handles of one queue pair. Numbers are dense and the
// lowest free one is taken, so that carriers can index tables by them. It belongs
// to the queue pair's owner.
type ahTable struct {
	byGID   map[device.GID]device.AH
	entries []ahEntry
	free    int // entries without references

	// The sender of the previous packet, which is often the sender of the next.
	lastGID device.GID
	lastAH  device.AH // UnknownAH: nothing remembered
}

type ahEntry struct {
	gid  device.GID
	refs int
}

func newAHTable() ahTable {
	return ahTable{byGID: make(map[device.GID]device.AH), lastAH: device.UnknownAH}
}

// valid reports whether sends may name ah.
func (t *ahTable) valid(ah device.AH) bool {
	return int(ah) < len(t.entries) && t.entries[ah].refs > 0
}

// find returns the handle of gid, or UnknownAH.
func (t *ahTable) find(gid *device.GID) device.AH {
	if t.lastGID == *gid && t.lastAH != device.UnknownAH {
		return t.lastAH
	}
	return t.lookUp(gid)
}

func (t *ahTable) lookUp(gid *device.GID) device.AH {
	ah, ok := t.byGID[*gid]
	if !ok {
		return device.UnknownAH
	}
	t.lastGID, t.lastAH = *gid, ah
	return ah
}

// add counts one more use of gid's handle if there is one.
func (t *ahTable) add(gid device.GID) (device.AH, bool) {
	ah, ok := t.byGID[gid]
	if ok {
		t.entries[ah].refs++
	}
	return ah, ok
}

// next returns the handle that insert will take, or UnknownAH if all are taken.
func (t *ahTable) next() device.AH {
	if t.free > 0 {
		for i := range t.entries {
			if t.entries[i].refs == 0 {
				return device.AH(i)
			}
		}
	}
	if len(t.entries) >= int(device.UnknownAH) {
		return device.UnknownAH
	}
	return device.AH(len(t.entries))
}

func (t *ahTable) insert(ah device.AH, gid device.GID) {
	if int(ah) == len(t.entries) {
		t.entries = append(t.entries, ahEntry{})
	} else {
		t.free--
	}
	t.entries[ah] = ahEntry{gid: gid, refs: 1}
	t.byGID[gid] = ah
}

// remove drops one use and reports whether it was the last.
func (t *ahTable) remove(ah device.AH) bool {
	e := &t.entries[ah]
	e.refs--
	if e.refs > 0 {
		return false
	}
	delete(t.byGID, e.gid)
	t.free++
	if t.lastAH == ah {
		t.lastAH = device.UnknownAH
	}
	return true
}

// CreateAH implements device.QP.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	if q.closed {
		return device.UnknownAH, device.ErrClosed
	}
	if ah, ok := q.ahs.add(gid); ok {
		return ah, nil
	}
	ah := q.ahs.next()
	if ah == device.UnknownAH {
		return device.UnknownAH, device.ErrNoMemory
	}
	if err := q.carrier.Route(ah, gid); err != nil {
		return device.UnknownAH, err
	}
	q.ahs.insert(ah, gid)
	return ah, nil
}

// DestroyAH implements device.QP. Sends that wait for a device resend to a
// handle without users end with StatusInvalidAH.
func (q *QP) DestroyAH(ah device.AH) error {
	if q.closed {
		return device.ErrClosed
	}
	if !q.ahs.valid(ah) {
		return device.ErrBadAH
	}
	if q.ahs.remove(ah) {
		q.dropResends(ah)
		q.carrier.Unroute(ah)
	}
	return nil
}
