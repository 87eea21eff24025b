package errtext_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/internal/errtext"
)

// TestForm: one line, one prefix, and the causes within.
func TestForm(t *testing.T) {
	inner := &errtext.Error{Package: "efa", Op: "open", Err: io.ErrUnexpectedEOF}
	for want, err := range map[string]error{
		"efa: open: unexpected EOF":                       inner,
		"launch: open: unexpected EOF":                    &errtext.Error{Package: "launch", Err: inner},
		"launch: rank 1: open: unexpected EOF":            &errtext.Error{Package: "launch", Err: fmt.Errorf("launch: rank 1: %w", inner)},
		"efa: close: open: unexpected EOF; EOF":           &errtext.Error{Package: "efa", Op: "close", Err: errors.Join(inner, io.EOF)},
		"efa: open: unexpected EOF; open: unexpected EOF": errtext.Join(inner, nil, inner),
		"efa: send: reefa: x (open: unexpected EOF)":      &errtext.Error{Package: "efa", Op: "send", Err: fmt.Errorf("reefa: x (%w)", inner)},
	} {
		require.Equal(t, want, err.Error())
		require.NotErrorIs(t, err, io.ErrNoProgress)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	require.NoError(t, errtext.Join(nil, nil))
	require.Equal(t, inner.Error(), errtext.Join(nil, inner).Error())
	var err error
	errtext.Wrap("efa", "close", &err)
	require.NoError(t, err)
}
