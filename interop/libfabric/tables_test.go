//go:build linux

package libfabric_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document, and the lines between which a release's tables stand.
var document = filepath.Join("..", "..", "docs", "interop.md")

const (
	beginTables = "<!-- libfabric %s: written by go test ./interop/libfabric -run TestMatrix -write -->\n"
	endTables   = "<!-- end -->\n"
)

// subprotocols are rows of the first table, in the specification's order; all others
// are in the second.
var subprotocols = []string{
	"handshake", "eager", "medium", "long-CTS", "long-read", "runting read", "DC eager", "DC medium", "DC long-CTS",
	"eager write", "long-CTS write", "long-read write", "DC eager write", "DC long-CTS write", "direct write",
	"short read", "long-CTS read", "direct read", "write atomic", "DC write atomic", "fetch atomic", "compare atomic",
}

var features = []string{
	"CQ data", "inject", "pieces", "registered buffers", "sizes", "unexpected messages", "truncation", "matching",
	"ignore masks", "peek", "claim", "discard", "cancel", "completion levels", "counters", "refused writes",
	"refused reads", "canceled sends", "removed peers", "fences", "RNR", "unsolicited writes", "READ_NACK", "PEER_ERROR",
}

var profiles = []string{
	"no RDMA, in order", "no RDMA, shuffled", "RDMA read, in order", "RDMA read, shuffled",
	"RDMA write, in order", "RDMA write, shuffled",
}

// Reasons for a place in the table where nothing runs.
const (
	noReads    = "the device has no RDMA read"
	readsAlone = "the devices read by themselves"
	noWrites   = "the device has no RDMA write"
	tooOld     = "libfabric has no RDMA write before 1.18"
	writeAlone = "the devices write by themselves"
	noRefusal  = "libfabric crashes when it refuses a write"
	noFree     = "libfabric has no unsolicited writes before 1.22"
	noNACK     = "libfabric has no READ_NACK before 1.20"
	noError    = "libfabric has no PEER_ERROR until 2.6"
	noAborts   = "this is seen without RDMA"
	runtSeen   = "this is seen with RDMA read"
	oursAlone  = "libfabric has no such operation, or promises nothing of it"
	noPause    = "efactor makes progress by itself, and has no pause in which it is not ready"
)

// reason is the reason why nothing runs there, "" if a scenario should.
func (c cell) reason() string {
	rdma, write := strings.HasPrefix(c.profile, "RDMA"), strings.HasPrefix(c.profile, "RDMA write")
	if write && lf().before(writing.since) {
		return tooOld
	}
	switch c.row {
	case "runting read":
		if write {
			return runtSeen
		}
		fallthrough
	case "long-read", "direct read", "refused reads":
		if !rdma {
			return noReads
		}
	case "eager write", "long-CTS write", "long-read write", "DC eager write", "DC long-CTS write":
		switch {
		case write:
			return writeAlone
		case !rdma && c.row == "long-read write":
			return noReads
		}
	case "short read", "long-CTS read":
		if rdma {
			return readsAlone
		}
	case "direct write", "unsolicited writes":
		switch {
		case !write:
			return noWrites
		case c.row == "unsolicited writes" && lf().before(release{1, 22, 0}):
			return noFree
		}
	case "READ_NACK":
		switch {
		case !rdma:
			return noReads
		case lf().before(release{1, 20, 0}):
			return noNACK
		}
	case "PEER_ERROR":
		switch {
		case lf().before(sincePeerError):
			return noError
		case rdma:
			return noAborts
		case c.begins == libfabricBegins:
			return oursAlone
		}
	case "refused writes":
		if c.begins == efactorBegins && !write {
			return noRefusal
		}
	case "canceled sends", "removed peers", "fences":
		if c.begins == libfabricBegins {
			return oursAlone
		}
	case "RNR":
		if c.begins == libfabricBegins {
			return noPause
		}
	}
	return ""
}

// TestRows: each row of the tables has scenarios, and each scenario's row is there.
func TestRows(t *testing.T) {
	proved := map[string]bool{}
	for _, s := range scenarios() {
		for _, row := range s.proves {
			proved[row] = true
			require.Contains(t, slices.Concat(subprotocols, features), row, s.name)
		}
		for _, g := range s.gaps {
			require.NotEqual(t, either, g.begins, s.name)
			require.NotEmpty(t, g.why, s.name)
		}
	}
	for _, row := range slices.Concat(subprotocols, features) {
		require.True(t, proved[row], "%s: no scenario", row)
	}
}

// checkTables compares the tables in the document with the results, or writes them.
func checkTables(t *testing.T, r *record) {
	version := need(t).version
	now := r.tables(t, version)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	begin := fmt.Sprintf(beginTables, version)
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Logf("%s has no place for libfabric %s, of which this is the table:\n%s", document, version, now)
		return
	}
	old, after, ok := strings.Cut(rest, endTables)
	require.True(t, ok, "%s: no line %q", document, endTables)
	if *write {
		require.NoError(t, os.WriteFile(document, []byte(before+begin+now+endTables+after), 0o644))
		return
	}
	require.Equal(t, now, old, "%s is not what ran; -write writes it", document)
}

// tables are the matrix in Markdown.
func (r *record) tables(t *testing.T, version string) string {
	var b strings.Builder
	var reasons []string
	fmt.Fprintf(&b, "libfabric %s, emulated device of 8760-byte packets. ✓ passed, a number: did not run, see below.\n\n", version)
	fill := strings.Repeat(" |", len(profiles))
	fmt.Fprintf(&b, "| | libfabric begins%s efactor begins%s\n|%s\n", fill, fill, strings.Repeat("---|", 1+2*len(profiles)))
	b.WriteString("| " + strings.Join(append([]string{"**device**"}, append(profiles, profiles...)...), " | ") + " |\n")
	for i, rows := range [][]string{subprotocols, features} {
		fmt.Fprintf(&b, "| **%s** |%s%s\n", [...]string{"subprotocol", "feature"}[i], fill, fill)
		for _, row := range rows {
			b.WriteString("| " + row + " |")
			for _, begins := range []role{libfabricBegins, efactorBegins} {
				for _, profile := range profiles {
					fmt.Fprintf(&b, " %s |", r.text(t, cell{row, begins, profile}, &reasons))
				}
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
	for i, reason := range reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, reason)
	}
	b.WriteString("\nScenarios that one side alone can begin:\n\n")
	var lines []string
	for _, s := range scenarios() {
		g := s.gap(lf())
		if g.begins == either || lf().before(s.since) {
			continue
		}
		if l := fmt.Sprintf("* %s, %v: %s.\n", s.plainName(), g.begins, g.why); !slices.Contains(lines, l) {
			lines = append(lines, l)
			b.WriteString(l)
		}
	}
	return b.String()
}

// plainName is the name without the bytes.
func (s scenario) plainName() string {
	f := strings.Fields(s.name)
	if n := len(f); n > 2 && f[n-1] == "B" {
		f = f[:n-2]
	}
	return strings.Join(f, " ")
}

// text is the text of a cell.
func (r *record) text(t *testing.T, c cell, reasons *[]string) string {
	passed, failed, why := r.passed[c], r.failed[c], c.reason()
	require.Zero(t, failed, "%v", c)
	require.Equal(t, passed > 0, why == "", "%v: %d scenarios ran, and should not because %q", c, passed, why)
	if passed > 0 {
		return "✓"
	}
	if !slices.Contains(*reasons, why) {
		*reasons = append(*reasons, why)
	}
	return fmt.Sprint(slices.Index(*reasons, why) + 1)
}
