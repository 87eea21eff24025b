//go:build linux

package libfabric_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/defects"
)

// The document with the counts, and the lines between which they stand.
var countsDocument = filepath.Join("..", "..", "docs", "releases.md")

const beginCounts = "<!-- counts: written by go test ./interop/libfabric -run TestCounts -write -->\n"

// tally is how much there is of a release.
type tally struct {
	scenarios       map[string]bool // that were captured
	replays, left   int             // places in them that an endpoint of ours had, or had not
	passed, reasons int             // cells of the tables in interop.md
	shown           int             // programs that show a defect
	played, tried   bool            // there are tables, programs were run
}

// TestCounts: docs/releases.md has the numbers that the other tests' records have.
func TestCounts(t *testing.T) {
	all := map[string]*tally{}
	of := func(release string) *tally {
		if all[release] == nil {
			all[release] = &tally{scenarios: map[string]bool{}}
		}
		return all[release]
	}
	countReplays(t, of)
	countCells(t, of)
	for _, release := range defects.Known {
		of(release).tried = true
	}
	for _, releases := range defects.Seen {
		for _, release := range releases {
			of(release).shown++
		}
	}
	text, err := os.ReadFile(countsDocument)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), beginCounts)
	require.True(t, ok, "%s: no line %q", countsDocument, beginCounts)
	old, after, ok := strings.Cut(rest, endTables)
	require.True(t, ok, "%s: no line %q", countsDocument, endTables)
	now := countsTable(all)
	if *write {
		require.NoError(t, os.WriteFile(countsDocument, []byte(before+beginCounts+now+endTables+after), 0o644))
		return
	}
	require.Equal(t, now, old, "%s; -write writes it", countsDocument)
}

// countReplays reads the list of actors/endpoint's TestGolden, whose lines begin with the
// release, the scenario and the place that our endpoint had.
func countReplays(t *testing.T, of func(string) *tally) {
	text, err := os.ReadFile(filepath.Join("..", "..", "actors", "endpoint", "testdata", "replayed.golden"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, what, ok := strings.Cut(strings.TrimSpace(line), ": ")
		words := strings.Fields(name)
		if strings.HasPrefix(line, "#") || !ok || len(words) < 3 {
			continue
		}
		release := words[0]
		if pair, isPair := strings.CutPrefix(release, "cross:"); isPair {
			release = strings.Replace(pair, ":", " to ", 1)
		}
		c := of(release)
		c.scenarios[strings.Join(words[1:len(words)-1], " ")] = true
		if strings.HasPrefix(what, "not replayed") {
			c.left++
		} else {
			c.replays++
		}
	}
}

// countCells reads the tables of what passes in interop.md.
func countCells(t *testing.T, of func(string) *tally) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	before, after, _ := strings.Cut(beginTables, "%s")
	for _, part := range strings.Split(string(text), before)[1:] {
		release, rest, ok := strings.Cut(part, after)
		require.True(t, ok, "%s", document)
		table, _, ok := strings.Cut(rest, endTables)
		require.True(t, ok, "%s", document)
		c := of(release)
		c.played = true
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") || strings.Contains(line, "**") || strings.Contains(line, "begins") {
				continue
			}
			for _, cell := range strings.Split(strings.TrimSpace(line), " | ")[1:] {
				if strings.HasPrefix(cell, "✓") {
					c.passed++
				} else {
					c.reasons++
				}
			}
		}
	}
}

func countsTable(all map[string]*tally) string {
	var b strings.Builder
	b.WriteString("| libfabric | captured scenarios | replays | not replayed | matrix: cells that pass | cells with a cause | defects shown |\n|---|---|---|---|---|---|---|\n")
	for _, release := range slices.Sorted(maps.Keys(all)) {
		c := all[release]
		passed, reasons, shown := "-", "-", "-"
		if c.played {
			passed, reasons = fmt.Sprint(c.passed), fmt.Sprint(c.reasons)
		}
		if c.tried {
			shown = fmt.Sprintf("%d of %d", c.shown, len(defects.Seen))
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s | %s | %s |\n", release, len(c.scenarios), c.replays, c.left, passed, reasons, shown)
	}
	return b.String()
}
