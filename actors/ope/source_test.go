package ope

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machines are the files that may write the fields of Tx, Rx and Caller.
var machines = []string{"machines.go"}

// TestNoWayRoundTheTables reads the package's source: operations hold their machines in
// fields m and c. Only the machines' own files assign what is in them, and nothing
// throws the error of a step away.
func TestNoWayRoundTheTables(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(machines, name) {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found, uses := roundTheTables(t, name, text)
		assert.Empty(t, found)
		seen += uses
	}
	require.Greater(t, seen, 50, "uses of machines")

	for text, bad := range map[string]bool{
		"t.m.Flying = 0":                    true,
		"r.m.reading--":                     true,
		"r.m.State, r.err = RxErr, err":     true,
		"t.c.state = CallerTold":            true,
		"t.m = Tx{}":                        true,
		"_ = r.m.Step(RxLast)":              true,
		"t.c.Step(CallerLate)":              true,
		"t.must(t.c.Step(CallerLate))":      false,
		"if !t.must(t.m.Ack(n)) { return }": false,
		"r.m.Forgo()":                       false,
		"t.err = nil":                       false,
	} {
		found, _ := roundTheTables(t, "x.go", []byte("package x\nfunc f() {\n"+text+"\n}"))
		assert.Equal(t, bad, len(found) > 0, text)
	}
}

// steps are the methods of machines that move them.
var steps = []string{"Step", "step", "Posted", "CTS", "Answer", "NACK", "Ack", "Lost", "Fail", "Abandon", "ReadFailed", "Refuse"}

// roundTheTables lists what a file does to machines without them, and counts its uses of
// them.
func roundTheTables(t *testing.T, name string, text []byte) (found []string, uses int) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	add := func(n ast.Node, what string) { found = append(found, fset.Position(n.Pos()).String()+": "+what) }
	isStep := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		fn, ok := call.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains(steps, fn.Sel.Name) && isMachine(fn.X)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && isMachine(field.X) || isMachine(to) {
					add(n, "a machine's field is assigned")
				}
				if id, ok := to.(*ast.Ident); ok && id.Name == "_" && isStep(n.Rhs[0]) {
					add(n, "the error of a step is thrown away")
				}
			}
		case *ast.IncDecStmt:
			if field, ok := n.X.(*ast.SelectorExpr); ok && isMachine(field.X) {
				add(n, "a machine's field is counted")
			}
		case *ast.ExprStmt:
			if isStep(n.X) {
				add(n, "the error of a step is thrown away")
			}
		case *ast.SelectorExpr:
			if isMachine(n) {
				uses++
			}
		}
		return true
	})
	return found, uses
}

// isMachine reports whether e is x.m or x.c.
func isMachine(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "m" || s.Sel.Name == "c")
}
