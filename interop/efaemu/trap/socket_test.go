//go:build linux && (amd64 || arm64)

package trap

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The messages of a process that ends without having read ours still arrive.
func TestLastWords(t *testing.T) {
	a, b, err := pair()
	require.NoError(t, err)
	defer unix.Close(a)
	require.NoError(t, sendmsg(a, []byte("never read"), nil))
	require.NoError(t, sendmsg(b, []byte("status"), nil))
	require.NoError(t, unix.Close(b))
	text, fds, err := recvmsg(a)
	require.NoError(t, err)
	require.Equal(t, "status", text)
	require.Empty(t, fds)
	text, _, err = recvmsg(a)
	require.NoError(t, err)
	require.Empty(t, text, "the end")
	require.ErrorIs(t, sendmsg(a, []byte("x"), nil), unix.EPIPE)
}

func TestDescriptorsInMessages(t *testing.T) {
	a, b, err := pair()
	require.NoError(t, err)
	defer unix.Close(b)
	require.NoError(t, sendmsg(a, []byte("itself"), unix.UnixRights(a)))
	require.NoError(t, unix.Close(a))
	text, fds, err := recvmsg(b)
	require.NoError(t, err)
	require.Equal(t, "itself", text)
	require.Len(t, fds, 1)
	flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)
	require.NoError(t, unix.Close(fds[0]))
	text, _, err = recvmsg(b)
	require.NoError(t, err)
	require.Empty(t, text)
}
