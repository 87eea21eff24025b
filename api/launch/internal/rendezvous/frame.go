package rendezvous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/efactor/efactor/api/launch/internal/board"
)

// version is that of everything but HELLO's beginning and ABORT.
const version = 1

// magic is the beginning of HELLO.
const magic = "efactor-join"

// The types of frames.
const (
	typeHello byte = iota + 1
	typeWelcome
	typeRefused
	typeFence
	typeResult
	typeLate
	typeAbort
	typeBye
)

// The limits of frames, by sender.
const (
	maxSmall  = 4 << 10  // all but FENCE and RESULT
	maxFence  = 1 << 20  // what one rank puts before a fence
	maxResult = 64 << 20 // what all ranks put
	maxJob    = 128
	maxText   = 1 << 10
	headerLen = 5
)

var errFrame = errors.New("rendezvous: malformed frame")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}

// newFrame is a frame of one part, ready to be written.
func newFrame(typ byte, rest []byte) []byte {
	b := make([]byte, headerLen, headerLen+len(rest))
	binary.BigEndian.PutUint32(b, uint32(1+len(rest)))
	b[4] = typ
	return append(b, rest...)
}

// readFrame reads one of at most limit bytes. Memory grows with the bytes received, not
// with the announced length.
func readFrame(r io.Reader, limit int) (typ byte, rest []byte, err error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	if looksLikeTLS(head) {
		return 0, nil, errTLS
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n-1 > int64(limit) {
		return 0, nil, malformed("%d bytes, at most %d", n, limit)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, n-1); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return head[4], b.Bytes(), nil
}

// errTLS is that the other side speaks TLS and this one does not.
var errTLS = errors.New("rendezvous: the other side speaks TLS")

// looksLikeTLS recognizes the beginning of a handshake or an alert (RFC 8446 section
// 5.1). As a length it would be above all limits.
func looksLikeTLS(head [headerLen]byte) bool {
	return (head[0] == 22 || head[0] == 21) && head[1] == 3
}

// hello identifies the connecting rank.
type hello struct {
	version    uint16
	rank, size uint32
	job        string
}

func (h hello) frame() []byte {
	b := append([]byte(nil), magic...)
	b = binary.BigEndian.AppendUint16(b, h.version)
	b = binary.BigEndian.AppendUint32(b, h.rank)
	b = binary.BigEndian.AppendUint32(b, h.size)
	return newFrame(typeHello, append(b, h.job...))
}

// parseHello reads HELLO; of another version only that is filled.
func parseHello(b []byte) (h hello, err error) {
	if len(b) < len(magic)+2 || string(b[:len(magic)]) != magic {
		return hello{}, malformed("not a HELLO")
	}
	b = b[len(magic):]
	h.version, b = binary.BigEndian.Uint16(b), b[2:]
	if h.version != version {
		return h, nil
	}
	if len(b) < 8 || len(b) > 8+maxJob {
		return hello{}, malformed("HELLO with %d bytes after its version", len(b))
	}
	h.rank, h.size = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	h.job = string(b[8:])
	return h, nil
}

// abortFrame encodes the reason why the job ends.
func abortFrame(f *board.Failure) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(int32(f.Rank)))
	b = append(b, byte(f.Kind))
	return newFrame(typeAbort, append(b, f.Text[:min(len(f.Text), maxText)]...))
}

// parseAbort reads ABORT. A rank that the job does not have becomes Nobody.
func parseAbort(b []byte, size int) (*board.Failure, error) {
	if len(b) < 5 || len(b) > 5+maxText {
		return nil, malformed("ABORT of %d bytes", len(b))
	}
	f := &board.Failure{Rank: int(int32(binary.BigEndian.Uint32(b))), Kind: board.Kind(b[4]), Text: printable(b[5:])}
	if !f.Kind.Valid() {
		f.Kind = board.Other
	}
	if f.Rank < 0 || f.Rank >= size {
		f.Rank = board.Nobody
	}
	return f, nil
}

// printable is text of another process, fit for a log.
func printable(b []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, b))
}

// FENCE and RESULT are a number, which counts fences from 0, and entries: length of the
// key (1 byte), key, length of the value (4 bytes), value.

// appendEntry appends an entry that board.Check has approved.
func appendEntry(b []byte, key string, value []byte) []byte {
	b = append(b, byte(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// numbered is a FENCE or RESULT.
func numbered(typ byte, number uint32, entries []byte) []byte {
	b := make([]byte, 0, 4+len(entries))
	return newFrame(typ, append(binary.BigEndian.AppendUint32(b, number), entries...))
}

func parseNumbered(b []byte) (number uint32, entries []byte, err error) {
	if len(b) < 4 {
		return 0, nil, malformed("fence of %d bytes", len(b))
	}
	return binary.BigEndian.Uint32(b), b[4:], nil
}

// eachEntry calls fn for every entry, until it returns an error. The value is a part of b.
func eachEntry(b []byte, fn func(key string, value []byte) error) error {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return malformed("an entry is cut off")
		}
		key := string(b[1 : 1+n])
		size := int64(binary.BigEndian.Uint32(b[1+n:]))
		b = b[1+n+4:]
		if size > int64(len(b)) {
			return malformed("an entry is cut off")
		}
		if err := board.Check(key, int(size)); err != nil {
			return malformed("%v", err)
		}
		if err := fn(key, b[:size:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
