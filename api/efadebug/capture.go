package efadebug

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
)

// captureBuffer is how many bytes of a capture are written to its file at once.
const captureBuffer = 1 << 20

// Capture writes the packets of devices in pcapng format, which Wireshark reads with
// the project's dissector. A packet stands after the raw addresses of its sender and
// its receiver (§1.4), 32 bytes each; its time is the system's clock in nanoseconds.
// Several devices may share a Capture, and its methods may be called from any
// goroutine.
type Capture struct {
	pcapng *tap.Pcapng
	buf    *bufio.Writer // nil: NewCapture
	file   *os.File
}

// NewCapture writes the headers of a capture to w, and then each packet by one call of
// Write. It does not close w.
func NewCapture(w io.Writer) (*Capture, error) {
	p, err := tap.NewPcapng(w, nil)
	if err != nil {
		return nil, fmt.Errorf("efadebug: capture: %w", err)
	}
	return &Capture{pcapng: p}, nil
}

// CreateCapture is NewCapture of a new file of that name, or of one that it truncates.
// Close writes the rest and closes the file. A file that another process, or another Capture,
// writes at the moment is left alone, and there is an error. Processes
// that start with the same flags put their rank, or os.Getpid, into the name.
func CreateCapture(name string) (*Capture, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("efadebug: capture: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("efadebug: capture: %s is written already, by another process perhaps: %w", name, err), f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("efadebug: capture: %w", err), f.Close())
	}
	buf := bufio.NewWriterSize(f, captureBuffer)
	c, err := NewCapture(buf)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.buf, c.file = buf, f
	return c, nil
}

// Device returns dev with every packet that its endpoints send (once the device has
// accepted it) or receive in the capture. Give it to [efa.Config] in place of dev. RDMA
// has no packets and is left out.
func (c *Capture) Device(dev efa.Device) efa.Device { return tap.Wrap(dev, c.pcapng) }

// Close ends the capture, after the devices' last endpoint was closed. The error is that
// of the first Write that failed, and says how many packets are missing since.
func (c *Capture) Close() error {
	err := c.pcapng.Err()
	if c.file != nil {
		err = errors.Join(err, c.buf.Flush(), c.file.Close())
	}
	if err != nil {
		return fmt.Errorf("efadebug: capture: %w", err)
	}
	return nil
}
