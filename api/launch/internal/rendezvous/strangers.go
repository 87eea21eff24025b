package rendezvous

import (
	"errors"
	"net"
	"slices"
	"sync"
)

// maxStrangers is how many connections may be open without a valid HELLO, besides one for
// each rank that is missing.
const maxStrangers = 256

// errCrowded is why a stranger was dropped.
var errCrowded = errors.New("it did not say who it is before many others called")

// strangers are the connections that have not said yet who they are, oldest first. When
// there are too many the oldest goes: a rank says HELLO within a round trip, and calls again
// if it was dropped.
type strangers struct {
	mu     sync.Mutex
	list   []net.Conn
	closed bool
}

// add keeps a connection in mind, and drops the oldest if there are more than most.
func (s *strangers) add(conn net.Conn, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, conn)
	if s.closed {
		_ = conn.Close()
	} else if len(s.list) > most {
		s.dropLocked(len(s.list) - most)
	}
}

// remove forgets a connection, and reports whether it was dropped before.
func (s *strangers) remove(conn net.Conn) (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.list, conn)
	if i < 0 {
		return true
	}
	s.list = slices.Delete(s.list, i, i+1)
	return false
}

// dropHalf makes room for a process that is out of descriptors, and reports whether there
// was one to drop.
func (s *strangers) dropHalf() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := (len(s.list) + 1) / 2
	s.dropLocked(n)
	return n > 0
}

func (s *strangers) dropLocked(n int) {
	for _, conn := range s.list[:n] {
		_ = conn.Close()
	}
	s.list = slices.Delete(s.list, 0, n)
}

// close ends all, and all that come later.
func (s *strangers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.list {
		_ = conn.Close()
	}
}
