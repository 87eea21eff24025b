//go:build !linux

package devicetest

import (
	"context"
	"errors"
)

// pollFDs is for Linux: drivers elsewhere run inside the process and notify.
func pollFDs(context.Context, []int) error {
	return errors.New("devicetest: descriptors are for Linux")
}
