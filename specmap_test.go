package efactor_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const specMap = "docs/spec-map.md"

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(.*)\.((?:Test|Fuzz|Example|Benchmark)\w+)$`)
)

// TestSpecMap keeps docs/spec-map.md whole: each section of the specification has
// a row, a row that claims code names it, and what it names exists.
func TestSpecMap(t *testing.T) {
	text, err := os.ReadFile(specMap)
	require.NoError(t, err)
	sections, tests := specSections(t), testFuncs(t)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.Contains(cells[3], "proved by") {
			continue
		}
		if m := section.FindStringSubmatch(cells[1]); m != nil {
			seen[m[1]] = true
		}
		checkRow(t, cells[1], cells[2], cells[3], tests)
	}
	for s := range sections {
		assert.True(t, seen[s], "%s: §%s has no row", specMap, s)
	}
}

func checkRow(t *testing.T, name, files, proofs string, tests map[string]bool) {
	named := quoted.FindAllStringSubmatch(files, -1)
	for _, m := range named {
		if strings.Contains(m[1], "/") { // else a field's name
			assert.FileExists(t, m[1], "%s:%s", specMap, name)
		}
	}
	proved := quoted.FindAllStringSubmatch(proofs, -1)
	for _, m := range proved {
		if f := testName.FindStringSubmatch(m[1]); f != nil {
			assert.True(t, tests[m[1]], "%s:%s: no function %s in the tests of %s", specMap, name, f[2], f[1])
		} else {
			assert.FileExists(t, m[1], "%s:%s", specMap, name)
		}
	}
	if len(named) > 0 {
		assert.True(t, len(proved) > 0 || strings.Contains(proofs, "see §"), "%s:%s: code without a test", specMap, name)
	} else {
		assert.Regexp(t, `nothing to implement|not built|see §`, files, "%s:%s", specMap, name)
	}
}

// testFuncs gives every test function as dir.Name.
func testFuncs(t *testing.T) map[string]bool {
	funcs := map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				funcs[path.Dir(f.path)+"."+fn.Name.Name] = true
			}
		}
	}
	return funcs
}
