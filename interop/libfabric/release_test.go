//go:build linux

package libfabric_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// release is a release of libfabric. Its zero value is no bound.
type release [3]int

// releaseOf reads a version as the library says it, such as 2.1.0 or 2.6.0a1.
func releaseOf(version string) (r release) {
	for i, part := range strings.SplitN(version, ".", len(r)) {
		digits := strings.IndexFunc(part, func(c rune) bool { return c < '0' || c > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		r[i], _ = strconv.Atoi(part)
	}
	return r
}

func (r release) before(o release) bool { return slices.Compare(r[:], o[:]) < 0 }

// lf is the release under test. Tests that play with a libfabric have asked need before.
func lf() release {
	found, _ := findTools()
	return releaseOf(found.version)
}

// since2 is the release since which libfabric is what 2.1.0 was found to be where it is
// not as 1.17.0. Neither the releases between the two were run here, nor 2.0.
var since2 = release{2, 0, 0}

// gap is a role in which a scenario does not run, with libfabrics from one release
// until before another.
type gap struct {
	begins       role // the only side that can be the initiator
	why          string
	since, until release
}

// gap is what leaves out a part of s with a libfabric, the zero value if nothing does.
func (s scenario) gap(of release) gap {
	for _, g := range s.gaps {
		if !of.before(g.since) && (g.until == release{} || of.before(g.until)) {
			return g
		}
	}
	return gap{}
}

func TestRelease(t *testing.T) {
	for text, want := range map[string]release{
		"1.17.0": {1, 17, 0}, "2.1.0": {2, 1, 0}, "2.6.0a1": {2, 6, 0}, "2.0": {2, 0, 0}, "main": {}, "": {},
	} {
		require.Equal(t, want, releaseOf(text), text)
	}
	require.True(t, release{1, 17, 9}.before(since2))
	s := scenario{gaps: []gap{{begins: efactorBegins, until: release{1, 18, 0}}, {begins: libfabricBegins, since: since2}}}
	require.Equal(t, efactorBegins, s.gap(release{1, 17, 0}).begins)
	require.Equal(t, either, s.gap(release{1, 18, 0}).begins)
	require.Equal(t, libfabricBegins, s.gap(release{2, 1, 0}).begins)
}
