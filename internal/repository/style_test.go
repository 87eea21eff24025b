package repository_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every package says in one place what it is: doc.go, if it has more files than
// one, or main.go of a command.
func TestOnePackageComment(t *testing.T) {
	packages := map[string][]*goFile{} // by directory
	for _, f := range goFiles(t) {
		if !f.isTest() {
			packages[path.Dir(f.path)] = append(packages[path.Dir(f.path)], f)
		}
	}
	for dir, files := range packages {
		found := 0
		for _, f := range files {
			if f.ast.Doc == nil {
				continue
			}
			found++
			name, home := f.ast.Name.Name, "doc.go"
			begin := "Package " + name + " "
			if name == "main" { // as in "Gofmt formats Go programs."
				name, home = path.Base(dir), "main.go"
				begin = strings.ToUpper(name[:1]) + name[1:] + " "
			}
			assert.True(t, strings.HasPrefix(f.ast.Doc.Text(), begin), "%s: the package comment begins with %q", f.path, begin)
			if len(files) > 1 {
				assert.Equal(t, home, path.Base(f.path), "%s: the place of the package comment", f.path)
			}
		}
		assert.Equal(t, 1, found, "%s: package comments", dir)
	}
}

func TestNoReplaceInGoMod(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	assert.NotRegexp(t, `(?m)^\s*replace\b`, string(mod), "a module with replace cannot be installed by others")
}

// Open tasks belong into issues, where they are found.
func TestNothingLeftOpen(t *testing.T) {
	open := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, f := range goFiles(t) {
		f.eachComment(func(c *ast.Comment) {
			assert.NotRegexp(t, open, c.Text, f.at(c))
		})
	}
}

// A test that sleeps is slow on a fast machine and fails on a slow one.
func TestNoSleepInTests(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				x, ok := sel.X.(*ast.Ident)
				assert.False(t, ok && x.Name == "time", "%s: time.Sleep in a test", f.at(n))
			}
			return true
		})
	}
}

// A § in a comment, a scenario or a document is a promise that the reader finds
// something there.
func TestSectionsExist(t *testing.T) {
	sections := specSections(t)
	cited := 0
	for _, f := range goFiles(t) {
		f.eachComment(func(c *ast.Comment) {
			for _, m := range section.FindAllStringSubmatch(c.Text, -1) {
				cited++
				assert.Contains(t, sections, m[1], "%s: not a section of the protocol specification", f.at(c))
			}
		})
	}
	for _, pattern := range []string{"docs/*.md", "actors/*/testdata/*.txt"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, p := range paths {
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			for _, m := range section.FindAllSubmatch(text, -1) {
				assert.Contains(t, sections, string(m[1]), "%s: not a section of the protocol specification", p)
			}
		}
	}
	assert.Greater(t, cited, len(sections), "citations found")
}

// bullets are the questions that the comment of every actor answers, in order.
// The words are what an answer cannot do without.
var bullets = []struct {
	question string
	answer   *regexp.Regexp
}{
	{"what it owns", regexp.MustCompile(`(?i)\bowns?\b`)},
	{"who sends to it", regexp.MustCompile(`\S`)},
	{"what it sends, and to whom", regexp.MustCompile(`(?i)\b(sends?|submits?|tells?|gives?|posts?|nothing)\b`)},
	{"what it may wait for", regexp.MustCompile(`(?i)\bwaits?\b`)},
	{"how it stops", regexp.MustCompile(`(?i)\b(stops?|stopped|ends?|ended|fails?|close[sd]?)\b`)},
}

func TestActorComments(t *testing.T) {
	found := 0
	for _, f := range goFiles(t) {
		if f.isTest() || !strings.HasPrefix(f.path, "actors/") {
			continue
		}
		for _, decl := range f.ast.Decls {
			name, ok := actorReceive(decl)
			if !ok {
				continue
			}
			found++
			doc := typeComment(t, path.Dir(f.path), name)
			_, list, _ := strings.Cut(doc, "\n  - ")
			answers := strings.Split(list, "\n  - ")
			if !assert.Len(t, answers, len(bullets), "%s: bullets in the comment of %s", f.path, name) {
				continue
			}
			for i, b := range bullets {
				assert.Regexp(t, b.answer, answers[i], "%s: %s: %s", f.path, name, b.question)
			}
		}
	}
	assert.NotZero(t, found, "actors found")
}

// actorReceive reports whether decl is `func (x *T) Receive(ctx actor.Context)`,
// and T's name.
func actorReceive(decl ast.Decl) (name string, ok bool) {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok || fn.Recv == nil || fn.Name.Name != "Receive" || fn.Type.Params.NumFields() != 1 {
		return "", false
	}
	sel, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Context" {
		return "", false
	}
	if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "actor" {
		return "", false
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

// typeComment finds the comment of the type of that name in a directory.
func typeComment(t *testing.T, dir, name string) string {
	for _, f := range goFiles(t) {
		if path.Dir(f.path) != dir {
			continue
		}
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				ts := spec.(*ast.TypeSpec)
				if ts.Name.Name != name {
					continue
				}
				if ts.Doc != nil {
					return ts.Doc.Text()
				}
				return gen.Doc.Text()
			}
		}
	}
	return ""
}
