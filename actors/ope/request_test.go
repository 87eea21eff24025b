package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/errno"
)

// TestAge: the generation of a handle crosses with the request, in a field that its kind does not
// use.
func TestAge(t *testing.T) {
	for _, k := range []Kind{KindSend, KindRecv, KindWrite, KindRead, KindAtomic} {
		r := &Request{Kind: k, Peer: 1, Tag: 2, Addr: 4, Ignore: 5, Key: 6}
		r.SetGeneration(99)
		require.NotZero(t, r.Flags&HasGeneration)
		require.EqualValues(t, 99, r.Generation())
		if k == KindRecv {
			require.EqualValues(t, 5, r.Ignore, "a receive is matched by it")
		} else {
			require.EqualValues(t, 6, r.Key, "an access needs it")
		}
		require.EqualValues(t, 2, r.Tag)
		require.EqualValues(t, 4, r.Addr)
	}
}

// TestAtomicSize: the longer direction of an atomic.
func TestAtomicSize(t *testing.T) {
	for _, c := range []struct {
		form                     atomics.Form
		operand, compare, result int
		want                     int
	}{
		{AtomicWrite, 8, 0, 0, 8},
		{AtomicFetch, 8, 0, 8, 8},
		{AtomicFetch, 0, 0, 16, 16}, // a plain read has no operand
		{AtomicFetch, 24, 0, 16, 24},
		{AtomicCompare, 8, 8, 8, 16},
		{AtomicCompare, 8, 8, 24, 24},
	} {
		r := &Request{Kind: KindAtomic, Form: c.form, Buf: make([]byte, c.operand)}
		if c.form != AtomicWrite {
			r.More = &More{Compare: make([]byte, c.compare), Result: make([]byte, c.result)}
		}
		require.Equal(t, c.want, r.AtomicSize(), "%+v", c)
	}
}

// TestMoved: the request is at one place at a time.
func TestMoved(t *testing.T) {
	r := &Request{Kind: KindWrite, Flags: Tagged, ID: 3, Buf: []byte("abc"), More: new(More)}
	was := *r
	to := r.Moved()
	require.Equal(t, was, *to)
	require.Zero(t, *r)
	to.Forget()
	require.Zero(t, *to)
}

// TestTruncated is an ErrTruncated with both lengths.
func TestTruncated(t *testing.T) {
	err := &Truncated{Placed: 10, Lost: 5}
	require.ErrorIs(t, err, errno.ErrTruncated)
	require.EqualError(t, err, "message of 15 bytes was truncated to the buffer's 10")
	require.Equal(t, "FI_ETRUNC", ErrorType(err))
}
