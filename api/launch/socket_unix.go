//go:build unix

package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// takeSocket takes over a descriptor that a variable of the environment names. Such
// variables outlive what they name, so it must be a socket: otherwise it may be one of
// the Go runtime's, which is left alone.
func takeSocket(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("descriptor %d is not a socket", fd)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "socket of the launcher"), nil
}
