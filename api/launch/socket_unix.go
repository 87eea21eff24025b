//go:build unix

package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// takeSocket takes over a descriptor that a variable of the environment names. Such
// variables outlive what they name, so it must be a socket that was inherited: otherwise
// it may be one that this process has opened since, which is left alone. Go's have
// FD_CLOEXEC, which nothing has that came through exec.
func takeSocket(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("descriptor %d is not a socket", fd)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if flags&unix.FD_CLOEXEC != 0 {
		return nil, fmt.Errorf("descriptor %d is this process's own", fd)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "socket of the launcher"), nil
}
