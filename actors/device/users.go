package device

import (
	"errors"
	"fmt"
	"sync"
)

// ErrBusy is what Close of a device returns while queue pairs or regions of it are open.
var ErrBusy = errors.New("device: queue pairs or regions are open")

// Users counts the queue pairs and regions that are open on a device, which closes only when
// there are none. The zero value is that of a new device. Any goroutine.
type Users struct {
	mu     sync.Mutex
	open   int
	closed bool
}

// Enter counts one more; ErrClosed if the device is closed.
func (u *Users) Enter() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	u.open++
	return nil
}

// Leave ends what Enter began.
func (u *Users) Leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open--
}

// Close has Enter fail from now on and calls end, once: later calls return ErrClosed. While
// there are users it does nothing but return ErrBusy.
func (u *Users) Close(end func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	if u.open > 0 {
		return fmt.Errorf("%w: %d", ErrBusy, u.open)
	}
	u.closed = true
	return end()
}
