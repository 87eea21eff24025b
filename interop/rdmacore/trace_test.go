//go:build linux

package rdmacore

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/install"
)

// scripts are played on a card of a profile. Releases of rdma-core before the least cannot
// do what they ask for; recorded are those with a golden file of the script.
var scripts = []struct {
	name, profile string
	least         int
	recorded      []int
}{
	{"efa", "efa", 44, []int{44, 65}},
	{"efa0", "efa0", 44, []int{44}},
	{"write", "rdma-write", 56, []int{56, 65}},
	{"wide", "strict", 65, []int{65}},
}

// played keeps our traces, by script.
var played = map[string]string{}

// ours is the trace of this repository's driver.
func ours(t *testing.T, name, profile string) string {
	t.Helper()
	if played[name] == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		played[name] = traceOf(t, profile, []string{"env", playVar + "=" + script(name), self}, nil)
	}
	return played[name]
}

func script(name string) string { return filepath.Join("testdata", "trace-"+name+".script") }

// traceOf runs a player; what it prints goes to out, unless that is nil.
func traceOf(t *testing.T, profile string, command []string, out *string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	s := start(t, launch{profile: profile, flags: []string{"-trace", path}, tool: command[0], args: command[1:]})
	printed := s.good(t)
	require.NotContains(t, printed, "not ok")
	if out != nil {
		*out = printed
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

var (
	driverLine = regexp.MustCompile(`ok driver (\S+)`)
	version    = regexp.MustCompile(`libefa\.so\.\d+\.\d+\.(\d+)\.`)
)

// libefa is the trace of rdma-core's driver, and its release. A folder that EFACTOR_LIBFABRIC
// names is what it comes from, or else the machine.
func libefa(t *testing.T, in install.Installation, name, profile string) (text string, release int) {
	t.Helper()
	var printed string
	text = traceOf(t, profile, in.Command(compiled(t, "script"), script(name)), &printed)
	path := driverLine.FindStringSubmatch(printed)
	require.NotNil(t, path, "%s", printed)
	require.True(t, in.Root == "" || strings.HasPrefix(path[1], in.Root+"/"), "%s is not the one in %s", path[1], in.Root)
	release, err := releaseOf(path[1])
	require.NoError(t, err)
	return text, release
}

// releaseOf is the release of rdma-core that a libefa.so is of.
func releaseOf(path string) (int, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0, err
	}
	found := version.FindStringSubmatch(filepath.Base(path))
	if found == nil {
		return 0, fmt.Errorf("%s: of which release?", path)
	}
	return strconv.Atoi(found[1])
}

// recorded names the golden file.
func recorded(name string, release int) string { return fmt.Sprintf("trace-%s-%d", name, release) }

// equal compares two traces of a script. The listed differences must be all that there are,
// and each must be one.
func equal(t *testing.T, name string, release int, theirs, ours string) {
	t.Helper()
	a, b := parseTrace(theirs), parseTrace(ours)
	want, got := settle(name, release, "", a, b)
	if want != got {
		require.FailNow(t, "unlisted difference", "libefa %d, and our driver:\n%s", release, firstDifference(want, got))
	}
	for _, d := range differences {
		if d.in == nil || d.in(name, release) {
			want, got := settle(name, release, d.name, a, b)
			assert.NotEqual(t, want, got, "libefa %d: %q is listed and does not occur", release, d.name)
		}
	}
}

// firstDifference shows where two traces differ first.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	part := func(lines []string) string {
		return strings.Join(lines[max(min(n, len(lines))-5, 0):min(n+5, len(lines))], "\n")
	}
	return part(x) + "\n\n" + part(y)
}

// TestTrace: the same script through libefa and through this repository's driver makes the
// same calls with the same attributes, mappings, descriptors and doorbells, but for the
// differences that are listed.
func TestTrace(t *testing.T) {
	ready(t)
	in, err := install.Find(os.Getenv(install.Variable))
	require.NoError(t, err)
	release := scripts[0].least
	for _, s := range scripts {
		if release < s.least { // it would refuse the queue pair
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var theirs string
			theirs, release = libefa(t, in, s.name, s.profile)
			if slices.Contains(s.recorded, release) {
				sameAsGolden(t, recorded(s.name, release), theirs)
			}
			equal(t, s.name, release, theirs, ours(t, s.name, s.profile))
		})
	}
}

// TestTraceRecorded is TestTrace with traces of libefa that were recorded: releases that
// this machine does not have.
func TestTraceRecorded(t *testing.T) {
	ready(t)
	for _, s := range scripts {
		for _, release := range s.recorded {
			t.Run(fmt.Sprintf("%s of %d", s.name, release), func(t *testing.T) {
				theirs, err := os.ReadFile(filepath.Join("testdata", recorded(s.name, release)+".golden"))
				require.NoError(t, err)
				equal(t, s.name, release, string(theirs), ours(t, s.name, s.profile))
			})
		}
	}
}

// TestDifferencesAreTold: the page about the driver has them all.
func TestDifferencesAreTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/efa-driver.md")
	require.NoError(t, err)
	for _, d := range differences {
		assert.Contains(t, string(page), "*"+d.name+"*")
	}
}
