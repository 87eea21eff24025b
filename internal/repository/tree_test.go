package repository_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// goFile is one Go file of the repository, whatever its build tags.
type goFile struct {
	path string // from the root, with slashes
	text []byte
	ast  *ast.File
	fset *token.FileSet
}

func (f *goFile) isTest() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f *goFile) generated() bool { return ast.IsGenerated(f.ast) }
func (f *goFile) lines() int      { return bytes.Count(f.text, []byte("\n")) }

func (f *goFile) at(n ast.Node) string { return f.fset.Position(n.Pos()).String() }

func (f *goFile) eachComment(fn func(*ast.Comment)) {
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			fn(c)
		}
	}
}

var parseTree = sync.OnceValues(func() ([]*goFile, error) {
	var files []*goFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name == "bin" || (strings.HasPrefix(name, ".") && name != ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, &goFile{filepath.ToSlash(path), text, file, fset})
		return nil
	})
	return files, err
})

// goFiles returns every Go file of the repository, nested modules included.
func goFiles(t *testing.T) []*goFile {
	t.Helper()
	files, err := parseTree()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

var section = regexp.MustCompile(`§\s?([0-9]+(?:\.[0-9]+)*)`)

// specSections returns the numbers of the specification's sections.
func specSections(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("internal/repository/testdata/spec-sections.txt")
	require.NoError(t, err)
	sections := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			sections[line] = true
		}
	}
	return sections
}
