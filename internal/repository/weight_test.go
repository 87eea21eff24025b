package repository_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var writeImports = flag.Bool("write-imports", false, "write internal/repository/testdata/imports.txt anew")

// TestWeight: importing api/efa brings the packages in internal/repository/testdata/imports.txt and no others: all of
// other modules, and those of the standard library that a package outside of it imports, which
// does not depend on the version of Go. docs/weight.md says what they cost.
func TestWeight(t *testing.T) {
	const file = "internal/repository/testdata/imports.txt"
	got := brings(t, "./api/efa")
	require.Contains(t, got, "github.com/asynkron/protoactor-go/actor")
	require.Contains(t, got, "crypto/tls")
	text := strings.Join(got, "\n") + "\n"
	if *writeImports {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text,
		"importing api/efa brings something else than before: see docs/weight.md, then go test ./internal/repository -run TestWeight -write-imports")
}

// brings lists what a package of ours brings on linux/amd64, sorted. Ours are left out, as are
// the internals of the standard library.
func brings(t *testing.T, pkg string) []string {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports", pkg)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	standard := map[string]bool{}
	direct := map[string]bool{}
	list := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath string
			Standard   bool
			Imports    []string
		}
		err := list.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if p.Standard { // listed before those that import it
			standard[p.ImportPath] = true
			continue
		}
		if !strings.HasPrefix(p.ImportPath, "github.com/efactor/efactor/") {
			direct[p.ImportPath] = true
		}
		for _, i := range p.Imports {
			if standard[i] {
				direct[i] = true
			}
		}
	}
	names := make([]string, 0, len(direct))
	for name := range direct {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
