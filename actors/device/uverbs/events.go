//go:build linux

package uverbs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// eventFile is a descriptor that the kernel makes: a completion channel, or one for
// asynchronous events. Reading it never waits.
type eventFile int

// noEvents is the eventFile of a device without.
const noEvents eventFile = -1

// createChannel makes a completion channel.
func (c *context) createChannel() (eventFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.write(abi.CmdCompChannel, make([]byte, abi.WriteCmdLen))
	out := c.cmd.out(abi.InvokeCoreOut, 4)
	if err := c.cmd.run(c.file); err != nil {
		return noEvents, fmt.Errorf("uverbs: completion channel: %w", err)
	}
	return newEventFile(uint64(le.Uint32(out)))
}

// createAsync makes a descriptor for asynchronous events.
func (c *context) createAsync() (eventFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.begin(abi.ObjectAsyncEvent, abi.AsyncEventAlloc)
	fd := c.cmd.made(abi.AsyncEventFD)
	if err := c.cmd.run(c.file); err != nil {
		return noEvents, fmt.Errorf("uverbs: asynchronous events: %w", err)
	}
	return newEventFile(fd())
}

func newEventFile(fd uint64) (eventFile, error) {
	if fd > 1<<30 {
		return noEvents, fmt.Errorf("%w: descriptor %d", errLies, fd)
	}
	f := eventFile(fd)
	if err := unix.SetNonblock(int(f), true); err != nil {
		return noEvents, errors.Join(fmt.Errorf("uverbs: descriptor %d: %w", fd, err), f.close())
	}
	return f, nil
}

// read reads events of n bytes into b and returns how many; 0: there is none now.
func (f eventFile) read(b []byte, n int) (int, error) {
	for {
		got, err := unix.Read(int(f), b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case err != nil:
			return 0, err
		case got == 0: // the other end of a pipe is closed: a kernel's descriptor has none
			return 0, unix.EPIPE
		}
		return got / n, nil
	}
}

func (f eventFile) close() error {
	if f == noEvents {
		return nil
	}
	return unix.Close(int(f))
}
