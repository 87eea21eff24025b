package rendezvous

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSilence ends a connection whose data is not acknowledged after as long as
// keepAlive takes for one without data (tcp(7), TCP_USER_TIMEOUT). Connections inherit it
// from their listener.
func boundSilence(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		most := keepAlive.Idle + time.Duration(keepAlive.Count)*keepAlive.Interval
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
