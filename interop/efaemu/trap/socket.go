//go:build linux && (amd64 || arm64)

package trap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pair is a socket pair for messages; both ends are closed on exec.
func pair() (a, b int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("trap: socketpair: %w", err)
	}
	return fds[0], fds[1], nil
}

func sendmsg(fd int, text, rights []byte) error {
	_, err := ignoringEINTR(func() (int, error) {
		return unix.SendmsgN(fd, text, rights, nil, unix.MSG_NOSIGNAL)
	})
	return err
}

// recvmsg waits for a message, with descriptors perhaps. "": the other end is closed.
func recvmsg(fd int) (text string, fds []int, err error) {
	var p [4096]byte
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn int
	for {
		n, oobn, _, _, err = unix.Recvmsg(fd, p[:], oob, unix.MSG_CMSG_CLOEXEC)
		switch err {
		case nil:
		case unix.EINTR, unix.ECONNRESET: // was closed before it had read all; our messages come next
			continue
		default:
			return "", nil, err
		}
		break
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return "", nil, err
	}
	for i := range msgs {
		rights, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return "", nil, err
		}
		fds = append(fds, rights...)
	}
	return string(p[:n]), fds, nil
}

// ignoringEINTR repeats a call that a signal interrupts.
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR { //nolint:errorlint // the kernel's, bare
			return n, err
		}
	}
}
