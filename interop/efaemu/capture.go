//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/efactor/efactor/actors/device/tap"
)

// capture is a file of packets.
type capture struct {
	*tap.Pcapng
	file *os.File
	buf  *bufio.Writer
}

func createCapture(name string) (*capture, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	p, err := tap.NewPcapng(buf, nil)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &capture{Pcapng: p, file: f, buf: buf}, nil
}

// close writes the rest, after the last packet.
func (c *capture) close() error {
	if err := errors.Join(c.Err(), c.buf.Flush(), c.file.Close()); err != nil {
		return fmt.Errorf("-pcap %s: %w", c.file.Name(), err)
	}
	return nil
}
