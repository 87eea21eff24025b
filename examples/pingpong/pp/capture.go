package pp

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/efactor/efactor/actors/device/tap"
)

// Capture is a file for Config.Tap in pcapng format.
type Capture struct {
	*tap.Pcapng
	file *os.File
	buf  *bufio.Writer
}

// CreateCapture creates the file, or truncates it.
func CreateCapture(name string) (*Capture, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	p, err := tap.NewPcapng(buf, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture %s: %w", name, err), f.Close())
	}
	return &Capture{Pcapng: p, file: f, buf: buf}, nil
}

// Close writes what is left. The Side that it tapped must be closed before.
func (c *Capture) Close() error {
	if err := errors.Join(c.Err(), c.buf.Flush(), c.file.Close()); err != nil {
		return fmt.Errorf("capture %s: %w", c.file.Name(), err)
	}
	return nil
}
