package repository_test

import (
	"go/ast"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestThreatModel keeps docs/threat-model.md true: each line that promises something names
// tests that exist.
func TestThreatModel(t *testing.T) {
	const doc = "docs/threat-model.md"
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil {
				tests[path.Dir(f.path)+"."+fn.Name.Name] = true
			}
		}
	}
	promises, in := 0, false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) != 5:
			in = false
		case strings.TrimSpace(cells[1]) == "promise":
			in = true
		case in && !strings.HasPrefix(cells[1], "---"):
			promises++
			named := quoted.FindAllStringSubmatch(cells[3], -1)
			assert.NotEmpty(t, named, "%s: a promise without a test: %s", doc, line)
			for _, m := range named {
				assert.True(t, tests[m[1]], "%s: there is no %s", doc, m[1])
			}
		}
	}
	assert.Greater(t, promises, 25, "%s: promises", doc)
}
