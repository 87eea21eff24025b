package repository_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/constant"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEnumeratedTypesHaveNames: what prints as a bare number in a log says nothing. Each
// exported type of integers with constants, of each public package, has a method String, or is
// an error; also one that is an alias of a type elsewhere.
func TestEnumeratedTypesHaveNames(t *testing.T) {
	public, imports := exportData(t, "./api/...")
	seen := 0
	for _, path := range public {
		pkg, err := imports.Import(path)
		require.NoError(t, err, path)
		for name, typ := range enumerated(pkg) {
			seen++
			assert.True(t, hasName(typ), "%s.%s has no method String", path, name)
		}
	}
	assert.Greater(t, seen, 12, "enumerated types in %v", public)
}

// TestEnumeratedTypesAreFound: the test above sees a type without a name.
func TestEnumeratedTypesAreFound(t *testing.T) {
	pkg := types.NewPackage("p", "p")
	name := types.NewTypeName(token.NoPos, pkg, "Mute", nil)
	mute := types.NewNamed(name, types.Typ[types.Uint8], nil)
	pkg.Scope().Insert(name)
	assert.Empty(t, enumerated(pkg), "a type without constants")
	pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, "One", mute, constant.MakeInt64(1)))
	require.Contains(t, enumerated(pkg), "Mute")
	assert.False(t, hasName(mute))
}

// enumerated is the exported types of integers of a package that have exported constants there,
// by their names.
func enumerated(pkg *types.Package) map[string]types.Type {
	scope, valued := pkg.Scope(), map[types.Type]bool{}
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && c.Exported() {
			valued[types.Unalias(c.Type())] = true
		}
	}
	found := map[string]types.Type{}
	for _, name := range scope.Names() {
		n, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || !n.Exported() {
			continue
		}
		typ := types.Unalias(n.Type())
		b, ok := typ.Underlying().(*types.Basic)
		if ok && b.Info()&types.IsInteger != 0 && valued[typ] {
			found[name] = typ
		}
	}
	return found
}

// hasName reports whether values of a type print as words.
func hasName(typ types.Type) bool {
	methods := types.NewMethodSet(typ)
	for _, m := range []string{"String", "Error"} {
		if s := methods.Lookup(nil, m); s != nil && s.Type().String() == "func() string" {
			return true
		}
	}
	return false
}

// exportData has the go command compile packages, and returns the public ones among them, and
// what reads their types.
func exportData(t *testing.T, pattern string) ([]string, types.Importer) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Export,DepOnly,Name", pattern)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	files := map[string]string{}
	var public []string
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Name string
			DepOnly                  bool
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[p.ImportPath] = p.Export
		if !p.DepOnly && p.Name != "main" && !strings.Contains(p.ImportPath, "/internal/") {
			public = append(public, p.ImportPath)
		}
	}
	return public, importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	})
}
