package ctrl

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// The words of the protocol, each with the NUL that ends a C string.
const (
	wordSync  = "q\x00"
	wordReady = "a\x00"
	wordCount = "cnt ok\x00"

	countLen = 10 // a decimal number, filled up with NULs
)

// Sync returns when both sides are about to begin with the next size.
func (c *Conn) Sync(ctx context.Context) error {
	return c.step(ctx, "synchronization", func() error {
		if c.server {
			if err := c.expect(wordSync); err != nil {
				return err
			}
			return c.write([]byte(wordReady))
		}
		if err := c.write([]byte(wordSync)); err != nil {
			return err
		}
		return c.expect(wordReady)
	})
}

// Count ends a size. The client reports the number n of answers that it got; the
// server, whose n does not matter, receives the client's.
func (c *Conn) Count(ctx context.Context, n int) (int, error) {
	err := c.step(ctx, "exchange of counts", func() (err error) {
		if c.server {
			if n, err = c.readCount(); err != nil {
				return err
			}
			return c.write([]byte(wordCount))
		}
		var b [countLen]byte
		if len(strconv.AppendInt(b[:0], int64(n), 10)) > countLen {
			return fmt.Errorf("a count of %d does not fit in %d digits", n, countLen)
		}
		if err := c.write(b[:]); err != nil {
			return err
		}
		return c.expect(wordCount)
	})
	return n, err
}

func (c *Conn) readCount() (int, error) {
	var b [countLen]byte
	if err := c.read(b[:]); err != nil {
		return 0, err
	}
	digits, rest, _ := bytes.Cut(b[:], []byte{0})
	n, err := strconv.ParseUint(string(digits), 10, strconv.IntSize-1)
	if err != nil || len(bytes.Trim(rest, "\x00")) > 0 {
		return 0, fmt.Errorf("%w: it sent the count %q", ErrProtocol, b[:])
	}
	return int(n), nil
}
