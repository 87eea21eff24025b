package rendezvous

import (
	"encoding/binary"

	"github.com/efactor/efactor/api/launch/internal/board"
)

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
