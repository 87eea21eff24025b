package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/model"
)

func contents(n, id int) []byte {
	b := make([]byte, n)
	model.Fill(b, id)
	return b
}

// TestSlot: version 1 from the beginning, 2 from 20 to 30, 3 on its way since 40.
func TestSlot(t *testing.T) {
	const n = 100
	s := model.NewSlot(n, 1)
	require.False(t, s.Open())
	s.Write(2, 20)
	require.True(t, s.Open())
	s.Settle(7, 25)
	require.True(t, s.Open(), "another one's")
	s.Settle(2, 30)
	require.False(t, s.Open())
	s.Write(3, 40)
	torn := append(contents(n, 2)[:50], contents(n, 3)[50:]...)
	for _, x := range []struct {
		name        string
		b           []byte
		from, until int
		wrong       string
	}{
		{"before", contents(n, 1), 5, 10, ""},
		{"too early", contents(n, 2), 5, 10, "of none of the 1"},
		{"while it comes", contents(n, 2), 15, 22, ""},
		{"not yet there", contents(n, 1), 15, 22, ""},
		{"still the old one", contents(n, 1), 31, 35, "it is of 0x1"},
		{"there", contents(n, 2), 31, 35, ""},
		{"the last is on its way", contents(n, 3), 45, 50, ""},
		{"half of it", torn, 45, 50, ""},
		{"half of what is to come", torn, 31, 35, "byte 50"},
		{"two versions back", contents(n, 1), 45, 50, "of none of the 2"},
		{"garbage", make([]byte, n), 45, 50, "found 00"},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, off := range []int{0, 1, 8, 49} {
				err := s.Judge(x.b[off:], off, x.from, x.until)
				if x.wrong == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, x.wrong)
			}
		})
	}
}

func TestDiffersAt(t *testing.T) {
	whole := contents(77, 5)
	for off := range 77 {
		for _, end := range []int{off, min(off+3, 77), 77} {
			b := append([]byte(nil), whole[off:end]...)
			require.Equal(t, -1, model.DiffersAt(b, off, 5, 77))
			for i := range b {
				b[i]++
				require.Equal(t, i, model.DiffersAt(b, off, 5, 77))
				b[i]--
			}
		}
	}
}
