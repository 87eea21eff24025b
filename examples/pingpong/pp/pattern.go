package pp

import (
	"bytes"
	"fmt"
)

// alphabet is repeated in checked messages.
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// stride is how many letters later each message begins than the one before.
const stride = 7

// Pattern is the data of fi_pingpong -c. Each direction has one, which goes on
// from message to message and from size to size. The zero value is at the first
// message.
type Pattern struct{ n uint32 } // wraps around, as the tool's counter does

// first is where in the alphabet the next message begins.
func (p *Pattern) first() int {
	i := p.n * stride % uint32(len(alphabet))
	p.n++
	return int(i)
}

// Fill writes the next message into b.
func (p *Pattern) Fill(b []byte) {
	i := p.first()
	n := copy(b, alphabet[i:])
	n += copy(b[n:], alphabet[:i])
	for n < len(b) {
		n += copy(b[n:], b[:n]) // n is a multiple of the alphabet's length
	}
}

// Check compares b with the next message; the error is a *CorruptError.
func (p *Pattern) Check(b []byte) error {
	number := p.n
	i := p.first()
	period := len(alphabet)
	if head := b[:min(len(b), period)]; string(head) == (alphabet[i:] + alphabet[:i])[:len(head)] &&
		(len(b) <= period || bytes.Equal(b[period:], b[:len(b)-period])) {
		return nil
	}
	for at, got := range b {
		if want := alphabet[(i+at)%period]; got != want {
			return &CorruptError{Message: number, Size: len(b), At: at, Got: got, Want: want}
		}
	}
	return nil
}

// CorruptError is the first difference between received and expected data.
type CorruptError struct {
	Message   uint32 // from 0, over all sizes
	Size, At  int
	Got, Want byte
}

// Error names the first byte that is wrong.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt data: byte %d of the %d of message %d is %q, want %q (was -c given on both sides?)",
		e.At, e.Size, e.Message, e.Got, e.Want)
}
