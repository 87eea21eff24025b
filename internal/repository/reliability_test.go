package repository_test

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

// complaints are the issues of libfabric that docs/reliability.md must have.
var complaints = []string{"7313", "6565", "6601", "6618", "6706", "6887", "10194", "5894", "6793"}

// TestReliability keeps the table of docs/reliability.md true: a row's test exists, and its
// comment names the row's issues.
func TestReliability(t *testing.T) {
	const doc = "docs/reliability.md"
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	comments := map[string]string{} // of tests, by package and name
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				comments[path.Dir(f.path)+"."+fn.Name.Name] = fn.Doc.Text()
			}
		}
	}
	issue := regexp.MustCompile(`\[#(\d+)\]`)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !issue.MatchString(cells[1]) {
			continue
		}
		tests := quoted.FindAllStringSubmatch(cells[4], -1)
		assert.NotEmpty(t, tests, "%s: a row without a test: %s", doc, line)
		for _, m := range issue.FindAllStringSubmatch(cells[1], -1) {
			seen[m[1]] = true
			for _, test := range tests {
				comment, ok := comments[test[1]]
				assert.True(t, ok, "%s: there is no %s", doc, test[1])
				assert.Contains(t, comment, "#"+m[1], "the comment of %s", test[1])
			}
		}
	}
	for _, n := range complaints {
		assert.True(t, seen[n], "%s: no row of issue %s", doc, n)
	}
}
