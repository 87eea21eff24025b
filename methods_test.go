package efactor_test

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxMethods = 40
	// Types that have more, with how many they had when they were counted. No line may be
	// added and no number raised.
	methodsPending = "testdata/methods-pending.txt"
)

// TestTypesAreSmall: short files do not make a small type. One with more methods than
// maxMethods holds several concepts, with state of their own.
func TestTypesAreSmall(t *testing.T) {
	methods := map[string]map[string]bool{} // by type, as folder.Name
	for _, f := range goFiles(t) {
		root, _, _ := strings.Cut(f.path, "/")
		if f.isTest() || root != "actors" && root != "api" && root != "runtime" {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := fmt.Sprint(path.Dir(f.path), ".", receiver(fn))
			if methods[name] == nil {
				methods[name] = map[string]bool{}
			}
			methods[name][fn.Name.Name] = true // once, whatever the build tags
		}
	}
	require.Greater(t, len(methods), 100, "types with methods")
	allowed := map[string]int{}
	for _, line := range lines(t, methodsPending) {
		name, count, ok := strings.Cut(line, " ")
		require.True(t, ok, line)
		n, err := strconv.Atoi(count)
		require.NoError(t, err)
		allowed[name] = n
		assert.Greater(t, len(methods[name]), maxMethods, "%s is small: take it out of %s", name, methodsPending)
	}
	for name, m := range methods {
		assert.LessOrEqual(t, len(m), max(maxMethods, allowed[name]), "%s: methods", name)
	}
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
