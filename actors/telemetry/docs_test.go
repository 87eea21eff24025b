package telemetry_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/telemetry"
)

var writeDocs = flag.Bool("write", false, "write the tables of docs/telemetry.md anew")

// tables are those of docs/telemetry.md, by the name in the comment before each.
var tables = map[string]func() string{
	"spans":      func() string { return names("span", telemetry.Spans) },
	"attributes": func() string { return names("attribute", telemetry.Attributes) },
	"events":     func() string { return names("event", telemetry.Events) },
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

func names(what string, list []telemetry.Name) string {
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

// TestNamesAreInTables: no name is given to OpenTelemetry that the tables do not have.
func TestNamesAreInTables(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	require.NoError(t, err)
	found := 0
	lists := map[string]string{
		"span": names("", telemetry.Spans), "attr": names("", telemetry.Attributes), "even": names("", telemetry.Events),
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Names[0].Name) < 4 || lists[spec.Names[0].Name[:4]] == "" {
			return true
		}
		ast.Inspect(spec, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				found++
				require.Contains(t, lists[spec.Names[0].Name[:4]], strings.ReplaceAll(lit.Value, `"`, "`"), spec.Names[0].Name)
			}
			return true
		})
		return true
	})
	require.Greater(t, found, 60)
}

// TestNamesAreOnce: the tables have each name once.
func TestNamesAreOnce(t *testing.T) {
	for what, list := range map[string][]telemetry.Name{
		"span": telemetry.Spans, "attribute": telemetry.Attributes, "event": telemetry.Events,
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
			require.Contains(t, names("", telemetry.Attributes), "`"+string(k)+"`", "of %s", i.Name)
		}
	}
}
