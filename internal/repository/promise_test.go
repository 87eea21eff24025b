package repository_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module   = "github.com/efactor/efactor"
	promises = "docs/packages.md"
)

// promised gives the packages that the table of docs/packages.md names.
func promised(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(promises)
	require.NoError(t, err)
	list := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| \\[`([a-z/]+)`\\]\\(\\.\\./([a-z/]+)\\) \\|").FindAllStringSubmatch(string(text), -1) {
		assert.Equal(t, m[1], m[2], "%s: a name and its link", promises)
		list[m[1]] = true
	}
	require.NotEmpty(t, list, promises)
	return list
}

// TestPromisedPackages: the packages with a promise exist, all of api is among them, and
// the linter has the same list.
func TestPromisedPackages(t *testing.T) {
	list := promised(t)
	found := map[string]bool{}
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		found[dir] = true
		if strings.HasPrefix(dir, "api/") && !strings.Contains(dir, "/internal/") {
			assert.True(t, list[dir], "%s does not name %s", promises, dir)
		}
	}
	config, err := os.ReadFile(".golangci.yml")
	require.NoError(t, err)
	linter := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- `+module+`/(api/\S+)\$$`).FindAllStringSubmatch(string(config), -1) {
		linter[m[1]] = true
	}
	assert.Equal(t, list, linter, "packages that .golangci.yml allows examples to import")
	for dir := range list {
		assert.True(t, found[dir], "%s names %s, which does not exist", promises, dir)
	}
}

// TestExamplesImportPromises: an example imports packages with a promise, and those of its
// own folder. Its tests may import more.
func TestExamplesImportPromises(t *testing.T) {
	list, checked := promised(t), 0
	for _, f := range goFiles(t) {
		if f.isTest() || !strings.HasPrefix(f.path, "examples/") {
			continue
		}
		checked++
		for _, pkg := range imports(t, f) {
			assert.True(t, mayImport(f.path, pkg, list), "%s imports %s, which has no promise", f.path, pkg)
		}
	}
	assert.NotZero(t, checked, "files of examples")
}

// below are the packages without a promise that an example may import: efacheck tries a
// card's queues, for which there is no other way.
var below = map[string]string{"examples/efacheck/": "actors/device"}

// mayImport reports whether a file of an example may import a package of this module.
func mayImport(file, pkg string, promised map[string]bool) bool {
	example := strings.Join(strings.SplitN(file, "/", 3)[:2], "/")
	return promised[pkg] || strings.HasPrefix(pkg, example+"/") || below[example+"/"] == pkg
}

// imports gives the packages of this module that a file imports, as folders.
func imports(t *testing.T, f *goFile) (list []string) {
	t.Helper()
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ImportSpec); ok {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if pkg, ok := strings.CutPrefix(name, module+"/"); ok {
				list = append(list, pkg)
			}
		}
		return true
	})
	return list
}

func TestMayImport(t *testing.T) {
	list := map[string]bool{"api/efa": true}
	for pkg, want := range map[string]bool{
		"api/efa": true, "examples/cache/kv": true,
		"api/efa/internal": false, "examples/kmeans/lloyd": false, "examples/cachet/kv": false,
		"actors/device": false, "internal/freeport": false, "runtime/clock": false,
	} {
		assert.Equal(t, want, mayImport("examples/cache/main.go", pkg, list), pkg)
	}
	assert.True(t, mayImport("examples/cache/kv/put.go", "examples/cache/bits", list), "a package beside it")
}
