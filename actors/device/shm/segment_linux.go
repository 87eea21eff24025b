package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// segment is an open segment file: our own, with its memory and the lock, or
// another queue pair's.
type segment struct {
	fd       int
	hdr      header // a copy, checked
	mem      []byte // nil until mapped
	doorbell int    // -1 until opened
	sealed   int    // our own's: the memory, -1 if that is in the file
	layout   uint32 // the version of another release's; 0: it is ours, or no segment
}

func (h *header) ident() ident { return makeIdent(uint16(h.qpn), h.gen) }

// alive reports whether the owner holds its lock.
func (s *segment) alive() bool { return lockedByOther(s.fd) }

func (s *segment) close() {
	if s.mem != nil {
		_ = release(s.mem)
		s.mem = nil
	}
	if s.doorbell >= 0 {
		_ = unix.Close(s.doorbell)
		s.doorbell = -1
	}
	for _, fd := range []*int{&s.sealed, &s.fd} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// find opens the file name, if it is a regular file of ours, and reads its header.
// An invalid header is left zero.
func (f *directory) find(name string) (*segment, error) {
	fd, _, err := f.openOwn(name, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	s := &segment{fd: fd, doorbell: -1, sealed: -1}
	var b [headerBytes]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("shm: read %s: %w", name, err)
	}
	if n != len(b) {
		return s, nil // cut short by its owner's death
	}
	h := *(*header)(unsafe.Pointer(&b))
	// A copy of another's header is not the header of this file, or its end would be the other's.
	qpn, _, _ := parseName(name)
	mine := qpn == 0 || uint32(qpn) == h.qpn
	if h.magic == magic && h.version == version && h.gen <= maxGen && h.gen != 0 && h.qpn <= 0xffff && mine {
		s.hdr = h
	}
	if h.magic == magic && h.version != version {
		s.layout = h.version
	}
	return s, nil
}

// mapRing maps a segment that find found.
func (s *segment) mapRing() (ring, error) {
	g, err := newGeometry(int(s.hdr.mtu), int(s.hdr.slots))
	if err != nil {
		return ring{}, err
	}
	fd := s.fd
	if s.isSealed() {
		if fd, err = s.hdr.sealed.open(unix.O_RDWR); err != nil {
			return ring{}, err
		}
		defer unix.Close(fd)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ring{}, fmt.Errorf("shm: stat: %w", err)
	}
	if st.Size < int64(g.size()) || st.Size > int64(g.size()) && !s.isSealed() { // touching what is not there would be a SIGBUS
		return ring{}, fmt.Errorf("%w: %d bytes instead of %d", errNoSegment, st.Size, g.size())
	}
	if s.mem, err = mapWhole(fd, g.size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return ring{}, err
	}
	return newRing(s.mem, g), nil
}

// isSealed reports whether the memory cannot be cut.
func (s *segment) isSealed() bool { return s.hdr.sealed.fd != 0 }

// same reports whether the memory is that of the header in the file: its process's number
// may be another's by now.
func (s *segment) same() bool { return *headerOf(s.mem) == s.hdr }

// create makes the segment of a new queue pair, with its doorbell, under the number
// qpn or, if that is 0, any free one.
func (f *directory) create(g geometry, qpn uint16, qkey uint32) (*segment, error) {
	for {
		s, err := f.createOnce(g, qpn, qkey)
		if !errors.Is(err, errSwept) {
			return s, err
		}
	}
}

func (f *directory) createOnce(g geometry, qpn uint16, qkey uint32) (_ *segment, err error) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	gen := binary.NativeEndian.Uint64(b[:])&maxGen | 1
	name := newName(gen)
	fd, err := unix.Openat(f.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("shm: create %s: %w", name, err)
	}
	s := &segment{fd: fd, doorbell: -1, sealed: -1}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(f.fd, doorbellName(gen), 0)
			s.close()
		}
		_ = unix.Unlinkat(f.fd, name, 0)
	}()
	if err := lockNew(fd); err != nil {
		return nil, err
	}
	if err := s.fill(f, g, gen, qkey); err != nil {
		return nil, err
	}
	if qpn != 0 {
		return s, f.claim(s, qpn, sweepTries)
	}
	return s, f.claimAny(s)
}

// fill gives a new segment its memory, header and bell.
func (s *segment) fill(f *directory, g geometry, gen uint64, qkey uint32) error {
	s.hdr = header{
		magic: magic, version: version, gen: gen, gid: f.gid,
		mtu: uint32(g.mtu), slots: uint32(g.slots), qkey: qkey, dom: f.dom,
	}
	size := headerBytes
	if !f.files {
		var err error
		if s.sealed, s.hdr.sealed, err = newSealed(newName(gen), g.size()); errors.Is(err, device.ErrNoMemory) {
			return err
		}
	}
	if !s.isSealed() {
		size = g.size()
	}
	if err := reserve(s.fd, size); err != nil {
		return fmt.Errorf("%w in %s", err, f.dir)
	}
	_, err := s.mapRing()
	if err != nil {
		return err
	}
	s.copyHeader()
	s.doorbell, err = f.makeDoorbell(gen)
	return err
}

// copyHeader puts the header into the memory, too, if that is not in the file.
func (s *segment) copyHeader() {
	if s.isSealed() {
		*headerOf(s.mem) = s.hdr
	}
}

// sweepTries bounds how often claim looks, once a millisecond, whether a number is free whose
// owner is dead: another process may be removing the files, and may be stopped in the middle.
const sweepTries = 2000

// claimTries bounds the search for a free number; beyond it the directory is full.
const claimTries = 2 * maxQP

func (f *directory) claimAny(s *segment) error {
	qpn := uint16(s.hdr.gen >> 1) // anywhere, so that a number rests before its next use
	for range claimTries {
		if qpn++; qpn == 0 {
			continue
		}
		if err := f.claim(s, qpn, 0); !errors.Is(err, device.ErrQPNInUse) {
			return err
		}
	}
	return fmt.Errorf("shm: no free number in %s: %w", f.dir, device.ErrQPNInUse)
}

// claim links the segment to its number. The file appears under its name complete
// and locked, so a process that finds a name with a free lock knows that its owner
// is dead. If another process is removing such a file, claim looks again, tries times.
func (f *directory) claim(s *segment, qpn uint16, tries int) error {
	s.hdr.qpn = uint32(qpn)
	s.copyHeader()
	if err := writeHeader(s.fd, &s.hdr); err != nil {
		return err
	}
	name := segmentName(qpn)
	for {
		err := unix.Linkat(f.fd, newName(s.hdr.gen), f.fd, name, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("shm: link %s: %w", name, err)
		}
		old, err := f.find(name)
		if errors.Is(err, unix.ENOENT) {
			continue // removed between the two calls
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", device.ErrQPNInUse, name, err)
		}
		removed := f.remove(old.fd, name, old.hdr.gen)
		f.expectOrphans()
		used := !removed && (tries == 0 || lockedByOther(old.fd))
		old.close()
		if used {
			return fmt.Errorf("%w: %d", device.ErrQPNInUse, qpn)
		}
		if !removed {
			tries--
			<-clock.NewTimer(time.Millisecond).C
		}
	}
}

// A doorbell is a FIFO beside the segment: a byte in it ends the owner's sleep.

// makeDoorbell makes the FIFO of an own segment. The owner opens both ends, so that it
// never reads an end of file.
func (f *directory) makeDoorbell(gen uint64) (int, error) {
	if err := unix.Mkfifoat(f.fd, doorbellName(gen), 0o600); err != nil {
		return -1, fmt.Errorf("shm: mkfifo: %w", err)
	}
	return f.openDoorbell(gen, unix.O_RDWR)
}

func (f *directory) openDoorbell(gen uint64, mode int) (int, error) {
	fd, err := unix.Openat(f.fd, doorbellName(gen), mode|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shm: open bell: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("shm: stat bell: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%w: the doorbell is not a fifo", errNoSegment)
	}
	return fd, nil
}

// ringDoorbell wakes the owner. A full FIFO is readable anyway, and one without a reader
// belongs to a dead process. The system calls of a bell are raw: they do not block and are short, so the Go scheduler
// need not know.
func ringDoorbell(fd int) {
	b := [1]byte{1}
	for {
		if _, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1); errno != unix.EINTR {
			return
		}
	}
}

// drained takes the bytes of doorbells, which say nothing.
var drained [maxSenders]byte

// drain empties a non-blocking descriptor: the doorbell, or the timer. Each sender may have rung for a sleep. More bytes
// than that are of a process that rings without end; those are left for later.
func drain(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&drained)), uintptr(len(drained)))
}
