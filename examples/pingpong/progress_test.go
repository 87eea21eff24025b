//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestProgressLine: the line appears with a tick, rows come without it, and nothing is left of it.
func TestProgressLine(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, doing: func(now time.Time) string { return fmt.Sprint("at ", now.Unix()) }}
	ticks := make(chan time.Time)
	stop := p.start(ticks)
	require.NoError(t, p.apart(func() error { _, err := out.WriteString("row 1\n"); return err }))
	ticks <- time.Unix(1, 0)
	ticks <- time.Unix(2, 0) // the first is shown now
	ticks <- time.Unix(2, 0)
	failed := errors.New("no room")
	require.ErrorIs(t, p.apart(func() error { out.WriteString("row 2\n"); return failed }), failed)
	stop()
	text := out.String()
	require.True(t, strings.HasPrefix(text, "row 1\n"+overwrite+"pingpong: at 1"+overwrite+"pingpong: at 2"), "%q", text)
	require.Contains(t, text, overwrite+"row 2\n", "a row begins on an empty line")
	last := text[strings.LastIndex(text, overwrite)+len(overwrite):]
	require.NotContains(t, last, "at ", "%q", text)

	quiet := &progress{doing: func(time.Time) string { return "something" }}
	quiet.show("anything")
	require.NoError(t, quiet.apart(func() error { return nil }))
}

// TestTerminals: files, pipes and /dev/null are none.
func TestTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	for _, f := range []*os.File{file, r, w, null} {
		require.Nil(t, terminal(f), f.Name())
		require.NoError(t, f.Close())
	}
	require.Nil(t, terminal(io.Discard))
	master, tty := openTerminal(t)
	defer master.Close()
	defer tty.Close()
	require.Equal(t, tty, terminal(tty))
	t.Setenv("TERM", "dumb")
	require.Nil(t, terminal(tty))
}

// openTerminal gives the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return master, tty
}

// TestProgressOnTerminal: a long run says on its terminal what it is doing.
func TestProgressOnTerminal(t *testing.T) {
	master, tty := openTerminal(t)
	defer master.Close()
	cmd, out, _ := start(t, filepath.Join(t.TempDir(), "fabric"), "-S", "1m", "-I", "100000000")
	cmd.Stderr, cmd.Env = tty, append(os.Environ(), "TERM=xterm")
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	var seen bytes.Buffer
	for b := make([]byte, 1000); !strings.Contains(seen.String(), " of 100000000 messages"); {
		n, err := master.Read(b)
		require.NoError(t, err, "%s", &seen)
		seen.Write(b[:n])
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, _ := io.ReadAll(master) // a terminal whose other end is closed fails with EIO
	seen.Write(rest)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
	require.Contains(t, seen.String(), "1m bytes, size 1 of 1: ")
	require.Contains(t, seen.String(), overwrite+"pingpong: interrupted", "no half line is left")
	require.NotContains(t, out.String(), "size 1 of 1", "figures alone go to standard output")
}
