package board

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRanks(t *testing.T) {
	in := func(rs ...int) func(int) bool {
		return func(r int) bool {
			for _, x := range rs {
				if x == r {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		size int
		in   func(int) bool
		want string
	}{
		{4, in(), ""},
		{4, in(0), "0"},
		{4, in(0, 1, 2, 3), "0-3"},
		{10, in(1, 4, 5, 6, 9), "1, 4-6, 9"},
		{1000, func(r int) bool { return r%2 == 0 }, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ..."},
	} {
		assert.Equal(t, c.want, Ranks(c.size, c.in))
	}
}

func TestFailureIs(t *testing.T) {
	assert.ErrorIs(t, Failed(1, Deadline, "x"), context.DeadlineExceeded)
	assert.ErrorIs(t, Failed(1, Mistake, "x"), ErrMistake)
	assert.NotErrorIs(t, Failed(1, Gone, "x"), ErrMistake)
	assert.Nil(t, errors.Unwrap(Failed(1, GivenUp, "x")))
	assert.EqualError(t, Failed(1, Gone, "rank %d", 1), "rank 1")
	assert.False(t, numKinds.Valid())
}

func TestCheck(t *testing.T) {
	for _, key := range []string{"a", "u.A-z_09", strings.Repeat("k", MaxKey)} {
		assert.NoError(t, Check(key, MaxValue), key)
		assert.ErrorIs(t, Check(key, MaxValue+1), ErrEntry)
	}
	for _, key := range []string{"", "a b", "a=b", "a;b", "a:b", "ä", "a\n", strings.Repeat("k", MaxKey+1)} {
		assert.ErrorIs(t, Check(key, 0), ErrEntry, "%q", key)
	}
}
