package repository_test

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

const (
	specMap   = "docs/spec-map.md"
	scenarios = "actors/endpoint/testdata"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(.*)\.((?:Test|Fuzz|Example|Benchmark)\w+)$`)
)

// mapRow is a row of one of the tables of docs/spec-map.md.
type mapRow struct {
	table     string // the head of its first column
	name      string
	files     string
	scenarios string // tables of three columns have none
	proofs    string
}

// TestSpecMap keeps docs/spec-map.md whole: what there is in the protocol has a row,
// a row that claims code names it, and what it names exists.
func TestSpecMap(t *testing.T) {
	rows, tests := mapRows(t), testFuncs(t)
	seen := map[string]map[string]bool{}
	for _, r := range rows {
		names := seen[r.table]
		if names == nil {
			names = map[string]bool{}
			seen[r.table] = names
		}
		if m := section.FindStringSubmatch(r.name); m != nil && r.table == "section" {
			names[m[1]] = true
		}
		for _, m := range quoted.FindAllStringSubmatch(r.name, -1) {
			assert.False(t, names[m[1]], "%s: two rows of %s", specMap, m[1])
			names[m[1]] = true
		}
		checkRow(t, &r, tests)
	}
	want := map[string]map[string]bool{
		"section": specSections(t), "subprotocol": subprotocols(t), "packet type": packetTypes(),
		"feature or request": features(), "handshake field": handshakeFields(),
	}
	for table, names := range want {
		require.NotEmpty(t, names, table)
		for name := range names {
			assert.True(t, seen[table][name], "%s: the %s %s has no row", specMap, table, name)
		}
		for name := range seen[table] {
			assert.True(t, names[name], "%s: there is no %s %s", specMap, table, name)
		}
	}
}

// mapRows reads the tables. The first line of a table says what it is about.
func mapRows(t *testing.T) (rows []mapRow) {
	text, err := os.ReadFile(specMap)
	require.NoError(t, err)
	table := ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) < 2:
			table = ""
		case strings.HasPrefix(cells[1], "---"):
		case table == "":
			table = cells[1]
		case len(cells) == 5:
			rows = append(rows, mapRow{table: table, name: cells[1], files: cells[2], proofs: cells[3]})
		case len(cells) == 6:
			rows = append(rows, mapRow{table, cells[1], cells[2], cells[3], cells[4]})
		default:
			assert.Fail(t, "columns", "%s: %s", specMap, line)
		}
	}
	require.Greater(t, len(rows), 80)
	return rows
}

func checkRow(t *testing.T, r *mapRow, tests map[string]bool) {
	at := specMap + ": " + r.name
	named := quoted.FindAllStringSubmatch(r.files, -1)
	for _, m := range named {
		assert.FileExists(t, m[1], at)
	}
	proved := quoted.FindAllStringSubmatch(r.proofs, -1)
	for _, m := range proved {
		if f := testName.FindStringSubmatch(m[1]); f != nil {
			assert.True(t, tests[m[1]], "%s: no function %s in the tests of %s", at, f[2], f[1])
		} else {
			assert.FileExists(t, m[1], at)
		}
	}
	switch r.table {
	case "section", "subject":
		if len(named) > 0 {
			assert.True(t, len(proved) > 0 || strings.Contains(r.proofs, "see §"), "%s: code without a test", at)
		} else {
			assert.Regexp(t, `nothing to implement|see §`, r.files, at)
		}
		return
	}
	assert.NotEmpty(t, named, "%s: no file", at)
	assert.NotEmpty(t, proved, "%s: no test", at)
	checkScenarios(t, r, at)
}

// checkScenarios: a row has a scenario at least; that of a packet type has such a
// packet.
func checkScenarios(t *testing.T, r *mapRow, at string) {
	shown := quoted.FindAllStringSubmatch(r.scenarios, -1)
	assert.NotEmpty(t, shown, "%s: no scenario", at)
	for _, m := range shown {
		text, err := os.ReadFile(path.Join(scenarios, m[1]))
		if !assert.NoError(t, err, at) || r.table != "packet type" {
			continue
		}
		name := quoted.FindStringSubmatch(r.name)[1]
		assert.Regexp(t, `(?m)^[^#]*\b`+name+`\b`, string(text), "%s: %s shows no such packet", at, m[1])
	}
}

// subprotocols are the names that operations give them.
func subprotocols(t *testing.T) map[string]bool {
	const file = "actors/ope/proto.go"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	names := map[string]bool{"handshake": true}
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+:\s+\{name: "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "-" {
			names[m[1]] = true
		}
	}
	require.Greater(t, len(names), 20, file)
	return names
}

func packetTypes() map[string]bool {
	names := map[string]bool{}
	for i := range 256 {
		if typ := wire.Type(i); typ.Known() {
			names[typ.String()] = true
		}
	}
	return names
}

func features() map[string]bool {
	names := map[string]bool{}
	for f := wire.Feature(0); f.String() != strconv.Itoa(int(f)); f++ {
		names[f.String()] = true
	}
	return names
}

// handshakeFields are the words of a HANDSHAKE that has everything.
func handshakeFields() map[string]bool {
	all := wire.Handshake{HasConnID: true, HasHostID: true, HasDeviceVersion: true, HasUserRecvQP: true, HasP2P: true}
	names := map[string]bool{}
	for word := range strings.FieldsSeq(wiretext.Summary(all.Append(nil))) {
		if name, _, ok := strings.Cut(word, "="); ok {
			names[name] = true
		}
	}
	return names
}

// testFuncs returns every test function as dir.Name.
func testFuncs(t *testing.T) map[string]bool {
	funcs := map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				funcs[fmt.Sprint(path.Dir(f.path), ".", fn.Name.Name)] = true
			}
		}
	}
	return funcs
}
