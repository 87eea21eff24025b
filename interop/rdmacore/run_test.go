//go:build linux

package rdmacore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// patience is how long a program may take; its own deadlines come first.
const patience = 200 * time.Second

// launch describes how a program runs under the emulator.
type launch struct {
	profile string // "": the default
	fabric  string // directory; "": one of its own
	host    string
	flags   []string // more of them
	program string   // of testdata
	tool    string   // of the machine, instead
	args    []string
	follow  bool // what it prints is read with line
}

// session is a program under the emulator.
type session struct {
	*exec.Cmd
	in       io.WriteCloser
	out, err sink
	fabric   string
	lines    *bufio.Reader // what it prints, if it is followed
}

// sink keeps the bytes written to it.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// start runs a program; the test must wait for it.
func start(t *testing.T, l launch) *session {
	t.Helper()
	program := l.tool
	if program == "" {
		program = compiled(t, l.program)
	}
	path, err := emulator()
	require.NoError(t, err)
	if l.fabric == "" {
		l.fabric = newFabric(t)
	}
	args := []string{"run", "-strict", "-fabric", l.fabric}
	if l.profile != "" {
		args = append(args, "-profile", l.profile)
	}
	if l.host != "" {
		args = append(args, "-host", l.host)
	}
	args = append(append(append(args, l.flags...), "--", program), l.args...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s := &session{Cmd: exec.CommandContext(ctx, path, args...), fabric: l.fabric}
	s.Stdout, s.Stderr = &s.out, &s.err
	s.in, err = s.StdinPipe()
	require.NoError(t, err)
	s.WaitDelay = 20 * time.Second
	if l.follow {
		s.follow(t)
	}
	require.NoError(t, s.Start())
	t.Cleanup(func() { _ = s.Process.Kill() })
	return s
}

// newFabric is a directory for a fabric that there is not yet.
func newFabric(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rdmacore") //nolint:usetesting // not on a disk
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "fabric")
}

// follow reads the program's output through a pipe.
func (s *session) follow(t *testing.T) {
	t.Helper()
	s.Stdout = nil
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, out.(*os.File).SetReadDeadline(clock.Deadline(patience)))
	s.lines = bufio.NewReader(out)
}

// line is the next that the program prints.
func (s *session) line(t *testing.T) string {
	t.Helper()
	text, err := s.lines.ReadString('\n')
	require.NoError(t, err, "after %q\n%s", text, s.err.String())
	return strings.TrimSuffix(text, "\n")
}

// wait returns the exit status.
func (s *session) wait(t *testing.T) int {
	t.Helper()
	err := s.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return s.ProcessState.ExitCode()
}

// good waits and returns the program's output; it must end well, the emulator must
// have found nothing, and nothing may be left on the fabric.
func (s *session) good(t *testing.T) string {
	t.Helper()
	s.well(t)
	assertEmpty(t, s.fabric)
	return s.out.String()
}

// well is good where others may still be on the fabric.
func (s *session) well(t *testing.T) {
	t.Helper()
	code := s.wait(t)
	require.Zero(t, code, "exit status\n%s\n%s", s.out.String(), s.err.String())
	assert.Empty(t, s.err.String(), "on stderr")
}

// found waits and returns the program's output and how often the emulator found
// each rule broken; there must be a finding, or the exit status would be 0.
func (s *session) found(t *testing.T) string {
	t.Helper()
	code := s.wait(t)
	require.Equal(t, 3, code, "exit status\n%s\n%s", s.out.String(), s.err.String())
	rules := map[string]int{}
	for line := range strings.Lines(s.err.String()) {
		rule, _, ok := strings.Cut(strings.TrimPrefix(line, "efaemu: "), ": ")
		require.True(t, ok, "%s", line)
		rules[rule]++
	}
	assertEmpty(t, s.fabric)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprintf(&s.out, "found %s %d\n", rule, rules[rule])
	}
	return s.out.String()
}

// assertEmpty checks that nothing is left in the directory of a fabric.
func assertEmpty(t *testing.T, fabric string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(fabric, "*"))
	require.NoError(t, err)
	assert.Empty(t, files, "left on the fabric")
}

// sameAsGolden compares what a program printed with testdata/name.golden.
func sameAsGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	require.NotContains(t, got, "not ok")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
