package repository_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// featureLevels are the rows that docs/features.md must have, by how much the inventory wants
// them.
var featureLevels = map[string]string{
	"MUST": `A01 A03 A05 A09 A16 A48 C02 D09 D11 D18 D21 D22 E13 F08 F24 G07 G17 G18 H02 K12 K13 L12 M01 M02 M03 M04 M05 M06 M07 M08
		M09 O20 S14 S16 S21 X01 X03 Y12`,
	"SHOULD": `A22 A28 A29 A31 A32 A39 A45 A52 B12 B15 C03 C08 D28 D29 E10 E11 F20 F29 G13 J05 J08 J22 M10 N14 N15 O13 P07 P08
		Q06 R06 U22 Z10 Z11`,
	"COULD": `A15 A17 A21 A23 A24 A25 A30 A44 A50 A55 A56 B03 B04 B20 B27 B28 C04 C16 D02 D03 D04 D13 D14 D15 D26 D27 D33 E09 E14
		E17 F13 F17 F18 F19 F22 G12 H05 H11 I02 J11 J15 J16 L14 P01 P02 P03 P04 P05 P09 Q01 Q02 Q04 Q05 V21 W06 Z14`,
}

// seeRow is a reason that another row has.
var seeRow = regexp.MustCompile(`^See ([A-Z]\d\d)\.$`)

// mostLeftOut is how many rows of MUST and SHOULD of the areas A to R may be left out.
const mostLeftOut = 10

// TestFeatures keeps docs/features.md whole: every row is there once, with its level; one that
// is done names tests, which exist; one that is not says why, and these are few.
func TestFeatures(t *testing.T) {
	const doc = "docs/features.md"
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	level := map[string]string{}
	for l, rows := range featureLevels {
		for _, row := range strings.Fields(rows) {
			level[row] = l
		}
	}
	tests := testFuncs(t)
	var seen, leftOut []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 7 || cells[1] == "row" || strings.HasPrefix(cells[1], "---") {
			continue
		}
		row, at := cells[1], doc+": "+cells[1]
		assert.Equal(t, level[row], cells[2], at)
		assert.NotContains(t, seen, row, doc)
		seen = append(seen, row)
		proofs := quoted.FindAllStringSubmatch(cells[5], -1)
		named := 0
		for _, m := range proofs {
			if testName.MatchString(m[1]) {
				named++
				assert.True(t, tests[m[1]], "%s: there is no %s", at, m[1])
			}
		}
		switch cells[4] {
		case "done":
			assert.Positive(t, named, "%s: done, without a test", at)
		case "partly", "left out":
			if m := seeRow.FindStringSubmatch(cells[5]); m != nil {
				assert.Contains(t, level, m[1], at)
			} else {
				assert.Greater(t, len(cells[5]), 20, "%s: without a reason", at)
			}
			if cells[2] != "COULD" && row < "S" {
				leftOut = append(leftOut, row)
			}
		default:
			assert.Fail(t, "state", "%s is %q", at, cells[4])
		}
	}
	for row := range level {
		assert.True(t, slices.Contains(seen, row), "%s: no row %s", doc, row)
	}
	assert.LessOrEqual(t, len(leftOut), mostLeftOut, "%s: not done: %v", doc, leftOut)
}
