package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

const module = "github.com/efactor/efactor/"

// The most that there may be between Send and the device.
const (
	maxFunctions = 45
	maxFiles     = 12
)

// TestOneWay prints the functions that a message of 8 bytes passes from the API to the
// device, by file: a reader of the message path meets these. It holds their number.
func TestOneWay(t *testing.T) {
	testenv.Long(t, "it builds everything with counters")
	bin, out := filepath.Join(t.TempDir(), "oneway"), t.TempDir()
	command(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", bin, ".")
	fabric := t.TempDir()
	require.NoError(t, os.Chmod(fabric, 0o700)) // as shm wants it
	command(t, bin, fabric, out)
	var every []function
	for i := range messages {
		fs := functions(t, filepath.Join(out, strconv.Itoa(i)))
		if i == 0 {
			every = fs
		}
		// One met a timer, another a goroutine of the shard's that woke up.
		every = slices.DeleteFunc(every, func(f function) bool { return !slices.Contains(fs, f) })
	}
	var text strings.Builder
	files := 0
	for i, f := range every {
		if i == 0 || f.file != every[i-1].file {
			files++
			fmt.Fprintf(&text, "\n%s:", f.file)
		}
		fmt.Fprintf(&text, " %s", f.name)
	}
	t.Logf("%d functions in %d files:%s", len(every), files, text.String())
	require.Contains(t, text.String(), " Endpoint.Send")
	require.Contains(t, text.String(), " Txe.sendEager") // no message took another way
	require.Contains(t, text.String(), " Queue.post")
	require.LessOrEqual(t, len(every), maxFunctions, "functions")
	require.LessOrEqual(t, files, maxFiles, "files")
}

func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", cmd, &stderr)
	return out
}

// function is one of which some code ran.
type function struct {
	file string // in the module
	name string
}

// functions lists those in a coverage directory, by file and in the order in which they
// stand there.
func functions(t *testing.T, dir string) []function {
	profile := filepath.Join(t.TempDir(), "profile")
	command(t, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)
	text, err := os.ReadFile(profile)
	require.NoError(t, err)
	ran := make(map[string][]int) // the first lines of blocks that ran, by file
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan() // the mode
	for lines.Scan() {
		path, block, ok := strings.Cut(lines.Text(), ":")
		file, ours := strings.CutPrefix(path, module)
		if !ok || !ours || strings.HasPrefix(file, "internal/oneway/") || strings.HasSuffix(block, " 0") {
			continue
		}
		// line.column,line.column statements count
		line, err := strconv.Atoi(block[:strings.IndexByte(block, '.')])
		require.NoError(t, err, lines.Text())
		ran[file] = append(ran[file], line)
	}
	require.NoError(t, lines.Err())
	var list []function
	for file, blocks := range ran {
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, filepath.Join("../..", file), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := fset.Position(f.Pos()).Line, fset.Position(f.End()).Line
			if slices.ContainsFunc(blocks, func(line int) bool { return from <= line && line <= to }) {
				list = append(list, function{file, nameOf(f)})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y function) int { return strings.Compare(x.file, y.file) })
	return list
}

// nameOf is a function's name, after that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	typ := f.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if g, ok := typ.(*ast.IndexExpr); ok {
		typ = g.X
	}
	return fmt.Sprintf("%s.%s", typ, f.Name.Name)
}
