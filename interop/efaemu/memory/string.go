package memory

import (
	"bytes"
	"errors"
	"os"
)

// ErrTooLong is that no zero byte comes within the limit.
var ErrTooLong = errors.New("memory: string is too long")

// String reads the string at addr up to its zero byte, which must come within
// limit bytes. It reads no page that the string does not reach: the one behind it
// may not be mapped.
func String(s Space, addr uint64, limit int) (string, error) {
	page := uint64(os.Getpagesize())
	var str []byte
	for limit > 0 {
		n := min(page-addr%page, uint64(limit))
		piece := make([]byte, n)
		if err := s.ReadAt(piece, addr); err != nil {
			return "", err
		}
		if end := bytes.IndexByte(piece, 0); end >= 0 {
			return string(append(str, piece[:end]...)), nil
		}
		str = append(str, piece...)
		if addr += n; addr == 0 { // behind the last page of all
			return "", ErrFault
		}
		limit -= int(n)
	}
	return "", ErrTooLong
}
