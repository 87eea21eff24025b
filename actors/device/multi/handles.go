package multi

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// handles are a queue pair's address handles: numbers of our own, dense, the lowest
// free one first, each for a handle of one path.
type handles struct {
	list []handle
	free int // entries without users
}

// handle is an address handle of a path's queue pair.
type handle struct {
	sub  device.AH
	path uint8
	refs int
}

// get returns the handle of ah, nil if there is none.
func (t *handles) get(ah device.AH) *handle {
	if int(ah) < len(t.list) && t.list[ah].refs > 0 {
		return &t.list[ah]
	}
	return nil
}

// next is the number that the next handle gets, UnknownAH if all are taken.
func (t *handles) next() device.AH {
	if t.free > 0 {
		return device.AH(slices.IndexFunc(t.list, func(h handle) bool { return h.refs == 0 }))
	}
	if len(t.list) >= int(device.UnknownAH) {
		return device.UnknownAH
	}
	t.list = append(t.list, handle{})
	t.free++
	return device.AH(len(t.list) - 1)
}

// CreateAH implements device.QP. The path is that of the first device that reaches gid.
// A GID that none reaches goes to the last device, which has the widest reach and
// refuses it.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	i := q.dev.reaching(gid)
	if i < 0 {
		i = len(q.subs) - 1
	}
	return q.CreateAHOn(uint8(i), gid)
}

// CreateAHOn is CreateAH on a path of the caller's choice.
func (q *QP) CreateAHOn(path uint8, gid device.GID) (device.AH, error) {
	s := &q.subs[path]
	ah, err := s.CreateAH(gid)
	if err != nil {
		return device.UnknownAH, err
	}
	for int(ah) >= len(s.own) {
		s.own = append(s.own, device.UnknownAH)
	}
	if own := s.own[ah]; own != device.UnknownAH {
		q.ahs.list[own].refs++
		return own, nil
	}
	own := q.ahs.next()
	if own == device.UnknownAH {
		_ = s.DestroyAH(ah) // it was made just now
		return own, device.ErrNoMemory
	}
	q.ahs.list[own] = handle{sub: ah, path: path, refs: 1}
	q.ahs.free--
	s.own[ah] = own
	return own, nil
}

// DestroyAH implements device.QP.
func (q *QP) DestroyAH(ah device.AH) error {
	h := q.ahs.get(ah)
	if h == nil {
		if q.closed {
			return device.ErrClosed
		}
		return device.ErrBadAH
	}
	s := &q.subs[h.path]
	if err := s.DestroyAH(h.sub); err != nil {
		return err
	}
	if h.refs--; h.refs == 0 {
		s.own[h.sub] = device.UnknownAH
		q.ahs.free++
	}
	return nil
}

// PathOf implements device.QP.
func (q *QP) PathOf(ah device.AH) int {
	if h := q.ahs.get(ah); h != nil {
		return int(h.path)
	}
	return 0
}
