package telemetry_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/internal/spans"
)

var writeDocs = flag.Bool("write", false, "write the tables of docs/telemetry.md anew")

// tables are those of docs/telemetry.md, by the name in the comment before each.
var tables = map[string]func() string{
	"spans":      func() string { return names("span", spans.Spans) },
	"attributes": func() string { return names("attribute", spans.Attributes) },
	"events":     func() string { return names("event", spans.Events) },
	"metrics": func() string {
		var b strings.Builder
		b.WriteString("| metric | kind | unit | series of a | attributes | says |\n|---|---|---|---|---|---|\n")
		for _, i := range telemetry.Instruments {
			var attrs []string
			for _, k := range i.Attrs {
				attrs = append(attrs, "`"+string(k)+"`")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", i.Name, i.Kind, i.Unit, i.Of(), strings.Join(attrs, " "), i.Text)
		}
		return b.String()
	},
}

func names(what string, list []spans.Name) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | says |\n|---|---|\n", what)
	for _, n := range list {
		fmt.Fprintf(&b, "| `%s` | %s |\n", n.Name, n.Text)
	}
	return b.String()
}

var marked = regexp.MustCompile(`(?s)<!-- (\w+), held by TestDocs -->\n\n(.*?)\n\n`)

// TestDocs: docs/telemetry.md has every name that goes out, and no other.
func TestDocs(t *testing.T) {
	const file = "../../docs/telemetry.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	seen := map[string]bool{}
	now := marked.ReplaceAllStringFunc(string(text), func(s string) string {
		name := marked.FindStringSubmatch(s)[1]
		require.Contains(t, tables, name)
		seen[name] = true
		return fmt.Sprintf("<!-- %s, held by TestDocs -->\n\n%s\n", name, tables[name]())
	})
	require.Len(t, seen, len(tables), "tables in the document")
	if *writeDocs {
		require.NoError(t, os.WriteFile(file, []byte(now), 0o644))
		return
	}
	require.Equal(t, now, string(text), "go test ./actors/telemetry -run TestDocs -write")
}

// TestNamesAreInTables: the names of names.go and those of the tables are the same.
func TestNamesAreInTables(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	given := map[string]bool{}
	for _, decl := range f.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				given["`"+strings.Trim(lit.Value, `"`)+"`"] = true
			}
			_, ok := n.(*ast.ImportSpec)
			return !ok
		})
	}
	delete(given, "`"+telemetry.Scope+"`")
	delete(given, "`efa_rdm`")
	for _, n := range slices.Concat(spans.Spans, spans.Attributes, spans.Events) {
		require.Contains(t, given, "`"+n.Name+"`", "of the tables")
	}
	tables := names("", slices.Concat(spans.Spans, spans.Attributes, spans.Events))
	for name := range given {
		require.Contains(t, tables, "| "+name+" |")
	}
	require.Greater(t, len(given), 60)
}

// TestNamesAreOnce: the tables have each name once.
func TestNamesAreOnce(t *testing.T) {
	for what, list := range map[string][]spans.Name{
		"span": spans.Spans, "attribute": spans.Attributes, "event": spans.Events,
	} {
		seen := map[string]bool{}
		for _, n := range list {
			require.False(t, seen[n.Name], "%s %s", what, n.Name)
			seen[n.Name] = true
			require.NotEmpty(t, n.Text)
		}
	}
	metrics := map[string]bool{}
	for _, i := range telemetry.Instruments {
		require.False(t, metrics[i.Name], i.Name)
		metrics[i.Name] = true
		for _, k := range i.Attrs {
			require.Contains(t, names("", spans.Attributes), "`"+string(k)+"`", "of %s", i.Name)
		}
	}
}
