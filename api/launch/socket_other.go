//go:build !unix

package launch

import (
	"errors"
	"os"
)

func takeSocket(int) (*os.File, error) {
	return nil, errors.New("no descriptors are inherited on this system")
}
