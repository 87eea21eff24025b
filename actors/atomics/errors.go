package atomics

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
)

// Errors of Apply; nothing was applied.
var (
	// ErrNotSupported: there is no such operation on this datatype in this form.
	ErrNotSupported = fmt.Errorf("atomics: no such operation on the datatype: %w", errno.ErrNotSupported)
	// ErrLength: the target is no whole number of elements, or the operand, the
	// comparand or the result is shorter than the target.
	ErrLength = fmt.Errorf("atomics: lengths do not fit: %w", errno.ErrInvalid)
)
