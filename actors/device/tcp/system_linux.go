package tcp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// advise adds to an error of too few descriptors what to do about it, on one line. Others
// it returns as they are.
func advise(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
			return err
		}
		return fmt.Errorf("%w: RLIMIT_NOFILE is %d; raise it (ulimit -n, LimitNOFILE= of systemd, docker run --ulimit nofile=)", err, l.Cur)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: all descriptors of this host are in use; raise fs.file-max (sysctl)", err)
	default:
		return err
	}
}
