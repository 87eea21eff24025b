package pp

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPatternIsTheTools compares with the messages that fi_pingpong 1.17 -v -c
// prints (-S all -I 2): where in its alphabet the first byte of each stands.
// Messages of no bytes count, and another size does not begin anew.
func TestPatternIsTheTools(t *testing.T) {
	var p Pattern
	p.Fill(nil)
	p.Fill(nil)
	for i, at := range []int{14, 21, 28, 35, 42, 49, 56, 1, 8, 15, 22, 29} {
		b := make([]byte, 1+i/2)
		p.Fill(b)
		require.Equal(t, alphabet[at], b[0], i)
	}
	require.Equal(t, 62, len(alphabet))
}

func TestPatternBytes(t *testing.T) {
	p := Pattern{n: 1}
	b := make([]byte, 70)
	p.Fill(b)
	require.Equal(t, "789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcde", string(b))
}

func TestPatternFillAndCheck(t *testing.T) {
	for _, start := range []uint32{0, 1<<32 - 70} { // the counter wraps around
		out, in := Pattern{n: start}, Pattern{n: start}
		for n := range 200 {
			b := make([]byte, n)
			at := int(out.n * stride % 62)
			out.Fill(b)
			want := strings.Repeat(alphabet, 5)[at:]
			require.Equal(t, want[:n], string(b))
			require.NoError(t, in.Check(b))
		}
	}
}

func TestPatternFindsEveryWrongByte(t *testing.T) {
	for _, size := range []int{1, 61, 62, 63, 124, 125, 1000} {
		b := make([]byte, size)
		(&Pattern{n: 5}).Fill(b)
		for at := range b {
			was := b[at]
			b[at] ^= 1
			var c *CorruptError
			require.True(t, errors.As((&Pattern{n: 5}).Check(b), &c), "byte %d of %d", at, size)
			require.Equal(t, CorruptError{Message: 5, Size: size, At: at, Got: was ^ 1, Want: was}, *c)
			b[at] = was
		}
	}
}

func BenchmarkPattern(b *testing.B) {
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	var out, in Pattern
	for b.Loop() {
		out.Fill(buf)
		if err := in.Check(buf); err != nil {
			b.Fatal(err)
		}
	}
}
