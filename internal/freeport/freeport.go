// Package freeport finds ports for programs that take a number, not a listener.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
)

// The ports lie below those that Linux gives away by itself (ip_local_port_range): one of
// those may be another program's before the one that it was found for takes it. They also
// lie below those where api/launch lets the steps of Slurm and Open MPI meet.
const (
	first = 10000
	end   = 16384
)

// next walks through the range, so that no process finds a port twice; each starts elsewhere.
var next = func() *atomic.Uint32 {
	n := new(atomic.Uint32)
	n.Store(rand.Uint32N(end - first))
	return n
}()

// Find returns a port without listener on this host, at any address.
func Find() (int, error) {
	for range 100 {
		port := first + int(next.Add(1)%(end-first))
		l, err := net.ListenTCP("tcp", &net.TCPAddr{Port: port})
		if err == nil {
			return port, l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
	return 0, errors.New("freeport: found none in 100 tries")
}

// Get is Find for tests.
func Get(t testing.TB) int {
	t.Helper()
	port, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
