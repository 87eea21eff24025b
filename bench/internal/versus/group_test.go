package versus

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// ranked runs a shell as a launcher with a rank that does not end when it is asked to. When
// the rank runs the launcher's input ends, or else its context. It fails if the rank lives on
// after Output: the rank has the other end of a pipe.
func ranked(t *testing.T, launcher string, cancels bool) error {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, r.SetReadDeadline(clock.Deadline(time.Minute)))
	in, begun, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer begun.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "(trap '' TERM; echo begun >&3; exec sleep 1000 >/dev/null 2>&1) & exec 3>&-\n"+launcher)
	cmd.Stdin, cmd.ExtraFiles = in, []*os.File{w}
	ended := make(chan error, 1)
	go func() {
		_, err := Output(cmd)
		ended <- errors.Join(err, w.Close())
	}()
	lines := bufio.NewReader(r)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	if cancels {
		cancel()
	} else {
		require.NoError(t, begun.Close())
	}
	err = <-ended
	_, end := lines.ReadByte()
	require.ErrorIs(t, end, io.EOF, "the rank lives on")
	return err
}

// TestGroup: ranks end with their launcher, whether it was asked to end, failed, or ended
// well without them.
func TestGroup(t *testing.T) {
	require.Error(t, ranked(t, "wait", true))
	require.ErrorContains(t, ranked(t, "read x; exit 7", false), "exit status 7")
	require.ErrorContains(t, ranked(t, "read x; kill -KILL $$", false), "killed")
	require.NoError(t, ranked(t, "read x; exit 0", false))
}
