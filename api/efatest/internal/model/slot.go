package model

import "fmt"

// Slot is memory that one program writes, always all of it, and that any program may
// read. Each write has contents of its own, as Fill makes them. There is no write
// before the previous one is known to be complete, so that at any time there is a
// last version that every reader must see, and perhaps one that it may see.
type Slot struct {
	Len      int // bytes
	versions []version
}

// version is the contents of one write into a slot. Moments are those of one clock.
type version struct {
	id    int // of its contents
	begin int // when it was asked for
	there int // when it was known to be there; 0: not yet, or never
}

// NewSlot makes a slot of n bytes that holds contents id.
func NewSlot(n, id int) *Slot {
	return &Slot{Len: n, versions: []version{{id: id, begin: -1, there: -1}}}
}

// Write notes that contents id are on their way.
func (s *Slot) Write(id, at int) { s.versions = append(s.versions, version{id: id, begin: at}) }

// Open reports whether the last write is not known to be there.
func (s *Slot) Open() bool { return s.versions[len(s.versions)-1].there == 0 }

// Settle notes that contents id are there, if they are the last that were written.
func (s *Slot) Settle(id, at int) {
	if v := &s.versions[len(s.versions)-1]; v.id == id && v.there == 0 {
		v.there = at
	}
}

// Judge returns an error unless b, read from off on between two moments, may have
// been there: each byte of the last version that was known to be complete, or of
// one that was being written.
func (s *Slot) Judge(b []byte, off, from, until int) error {
	may := s.seen(from, until)
	for _, v := range may {
		if DiffersAt(b, off, v.id, s.Len) < 0 {
			return nil
		}
	}
	torn := len(may) > 1
	for i := range b {
		ok := false
		for _, v := range may {
			ok = ok || b[i] == byteOf(v.id, off+i, s.Len)
		}
		if !ok || !torn {
			at := DiffersAt(b, off, may[0].id, s.Len)
			if torn {
				at = i
			}
			return fmt.Errorf("byte %d of %d is of none of the %d versions that may be there (the first is %#x)%s",
				off+at, s.Len, len(may), may[0].id, s.found(b[at:], off+at))
		}
	}
	return nil
}

// seen lists what may be read between two moments.
func (s *Slot) seen(from, until int) []version {
	first := 0
	for i, v := range s.versions {
		if v.there != 0 && v.there < from {
			first = i
		}
	}
	last := first + 1
	for last < len(s.versions) && s.versions[last].begin <= until {
		last++
	}
	return s.versions[first:last]
}

// found describes b for a report.
func (s *Slot) found(b []byte, off int) string {
	b = b[:min(len(b), 16)]
	for _, v := range s.versions {
		if DiffersAt(b, off, v.id, s.Len) < 0 {
			return fmt.Sprintf("; it is of %#x, begun at %d and there at %d", v.id, v.begin, v.there)
		}
	}
	return fmt.Sprintf("; found %x", b)
}
