package repository_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file is a room: it tells one subject from top to bottom. A file that is too short is a
// crumb, and a type that lies in many files can't be read.
const (
	minSourceLines  = 40
	maxSourceLines  = 900
	maxTestLines    = 1000
	maxDocLines     = 80
	maxExampleLines = 150

	maxProductFiles = 400
	maxTypeFiles    = 4 // files in which the functions of one type lie
	maxCentralFiles = 6 // the same for the types in central-types.txt

	maxFreeFunctions = 60

	centralTypes  = "internal/repository/testdata/central-types.txt"
	freeFunctions = "internal/repository/testdata/free-functions.txt"
	embeddings    = "internal/repository/testdata/embeddings.txt"
	exportBudget  = "internal/repository/testdata/exported-names.txt"
)

// product reports whether a file is part of what programs import.
func (f *goFile) product() bool {
	root, _, _ := strings.Cut(f.path, "/")
	return !f.isTest() && slices.Contains([]string{"api", "actors", "runtime", "wire"}, root)
}

// builds are the last words of the names of files that are for some builds only.
var builds = []string{
	"linux", "darwin", "windows", "unix", "posix", "other", "amd64", "arm64", "asm", "generic", "purego", "epoll", "poller", "netpoll",
}

// tagged reports whether a file is for some builds only, by its name or its first lines.
func (f *goFile) tagged() bool {
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			if g.Pos() < f.ast.Package && constraint.IsGoBuild(c.Text) {
				return true
			}
		}
	}
	words := strings.Split(strings.TrimSuffix(path.Base(f.path), ".go"), "_")
	return slices.ContainsFunc(words[1:], func(w string) bool { return slices.Contains(builds[:8], w) && w != "posix" && w != "other" })
}

// room is the name of a file without the words that say for which builds it is: a subject
// that differs by build is one room.
func (f *goFile) room() string {
	name := strings.TrimSuffix(path.Base(f.path), ".go")
	for f.tagged() {
		i := strings.LastIndexByte(name, '_')
		if i < 0 || !slices.Contains(builds, name[i+1:]) {
			break
		}
		name = name[:i]
	}
	return name
}

func TestFilesAreRooms(t *testing.T) {
	files, total := 0, 0
	for _, f := range goFiles(t) {
		if f.generated() {
			continue
		}
		name, limit := path.Base(f.path), maxSourceLines
		switch {
		case f.isTest():
			limit = maxTestLines
		case name == "doc.go":
			limit = maxDocLines
		case strings.HasPrefix(f.path, "examples/") && f.ast.Name.Name == "main":
			limit = maxExampleLines
		}
		assert.LessOrEqual(t, f.lines(), limit, "%s: lines", f.path)
		if !f.product() {
			continue
		}
		files++
		total += f.lines()
		if name != "doc.go" && !f.tagged() {
			assert.GreaterOrEqual(t, f.lines(), minSourceLines, "%s: lines; which file has its subject?", f.path)
		}
	}
	t.Logf("product: %d files, %d lines", files, total)
	assert.LessOrEqual(t, files, maxProductFiles, "product files")
}

// layout is how the types of a package lie in its files.
type layout struct {
	types     map[string]ast.Expr
	files     map[string]map[string]bool // of the methods and free functions of a type, by its name
	functions map[string]int
	embeds    map[string][]string // the structs of the package that one embeds
	free      map[string][]string // functions that take a *T of the package first
}

// layoutOf reads the files of one package without its tests.
func layoutOf(files []*goFile) *layout {
	l := &layout{map[string]ast.Expr{}, map[string]map[string]bool{}, map[string]int{}, map[string][]string{}, map[string][]string{}}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
				for _, spec := range gen.Specs {
					l.types[spec.(*ast.TypeSpec).Name.Name] = spec.(*ast.TypeSpec).Type
				}
			}
		}
	}
	for name, typ := range l.types {
		s, ok := typ.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range s.Fields.List {
			inner, _ := typeName(field.Type)
			if _, ok := l.types[inner].(*ast.StructType); ok && len(field.Names) == 0 {
				l.embeds[name] = append(l.embeds[name], inner)
			}
		}
	}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			typ := ""
			if fn.Recv != nil {
				typ = receiver(fn)
			} else if typ = l.disguised(fn); typ != "" {
				l.free[typ] = append(l.free[typ], fn.Name.Name)
			}
			if typ == "" {
				continue
			}
			l.functions[typ]++
			if l.files[typ] == nil {
				l.files[typ] = map[string]bool{}
			}
			l.files[typ][f.room()] = true
		}
	}
	return l
}

// disguised returns the type of the package whose pointer a function without a receiver takes
// first, or "". A name for the pointer, a type parameter for it, and a struct that holds
// nothing but it are no other types.
func (l *layout) disguised(fn *ast.FuncDecl) string {
	if fn.Type.Params.NumFields() == 0 {
		return ""
	}
	typ := fn.Type.Params.List[0].Type
	for range 8 { // names for names
		name, pointer := typeName(typ)
		if _, ok := l.types[name]; ok && pointer {
			return name
		}
		next := l.types[name]
		if fn.Type.TypeParams != nil {
			for _, p := range fn.Type.TypeParams.List {
				if slices.ContainsFunc(p.Names, func(id *ast.Ident) bool { return id.Name == name }) {
					next = p.Type
				}
			}
		}
		if u, ok := next.(*ast.UnaryExpr); ok { // ~*T
			next = u.X
		}
		switch x := next.(type) {
		case nil:
			return ""
		case *ast.StructType:
			if x.Fields.NumFields() != 1 {
				return ""
			}
			next = x.Fields.List[0].Type
		case *ast.InterfaceType:
			if x.Methods.NumFields() != 1 || len(x.Methods.List[0].Names) != 0 {
				return ""
			}
			next = x.Methods.List[0].Type
			if u, ok := next.(*ast.UnaryExpr); ok {
				next = u.X
			}
		}
		typ = next
	}
	return ""
}

// spread returns the files in which the functions of a type lie, those of the structs that it
// embeds counted.
func (l *layout) spread(typ string) map[string]bool {
	all := maps.Clone(l.files[typ])
	if all == nil {
		all = map[string]bool{}
	}
	for _, e := range l.embeds[typ] {
		maps.Copy(all, l.spread(e))
	}
	return all
}

// typeName is the name of a type of the package, and whether the expression is a pointer to it.
func typeName(typ ast.Expr) (name string, pointer bool) {
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ, pointer = x.X, true
		case *ast.ParenExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name, pointer
		default:
			return "", false
		}
	}
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	name, _ := typeName(fn.Recv.List[0].Type)
	return name
}

// layouts are those of all packages, by folder.
func layouts(t *testing.T, keep func(*goFile) bool) map[string]*layout {
	t.Helper()
	files := map[string][]*goFile{}
	for _, f := range goFiles(t) {
		if !f.isTest() && !f.generated() && keep(f) {
			files[path.Dir(f.path)] = append(files[path.Dir(f.path)], f)
		}
	}
	all := map[string]*layout{}
	for dir, list := range files {
		all[dir] = layoutOf(list)
	}
	return all
}

// TestTypesLieTogether: the functions of a type lie in few files, those of structs that it
// embeds counted. Embedding says that one thing is another; it does not divide a large type.
func TestTypesLieTogether(t *testing.T) {
	central, embedded := lines(t, centralTypes), lines(t, embeddings)
	seen, embeds := map[string]bool{}, map[string]bool{}
	for dir, l := range layouts(t, (*goFile).product) {
		for typ := range l.types {
			name, files := dir+"."+typ, slices.Sorted(maps.Keys(l.spread(typ)))
			limit := maxTypeFiles
			if slices.Contains(central, name) {
				seen[name], limit = true, maxCentralFiles
				t.Logf("%s: %d functions in %d files", name, l.functions[typ], len(files))
				assert.Greater(t, len(files), maxTypeFiles, "%s lies in few files: take it out of %s", name, centralTypes)
			}
			assert.LessOrEqual(t, len(files), limit, "%s: files: %v", name, files)
			for _, e := range l.embeds[typ] {
				pair := name + " " + e
				embeds[pair] = true
				assert.True(t, slices.ContainsFunc(embedded, func(line string) bool { return strings.HasPrefix(line, pair+": ") }),
					"%s embeds %s: is it one? Say why in %s, or make it a field", name, e, embeddings)
			}
		}
	}
	for _, name := range central {
		assert.True(t, seen[name], "there is no %s: take it out of %s", name, centralTypes)
	}
	for _, line := range embedded {
		pair, _, _ := strings.Cut(line, ": ")
		assert.True(t, embeds[pair], "%s: no such embedding: take it out of %s", pair, embeddings)
	}
}

// TestMethodsAreMethods: a function that takes a *T of its package first is a method of T. The
// list has those that can't be: constructors, and functions with type parameters of their own.
func TestMethodsAreMethods(t *testing.T) {
	listed, found := lines(t, freeFunctions), []string{}
	for dir, l := range layouts(t, func(*goFile) bool { return true }) {
		for typ, names := range l.free {
			for _, fn := range names {
				line := fmt.Sprintf("%s.%s %s", dir, fn, typ)
				found = append(found, line)
				assert.Contains(t, listed, line, "make it a method: the list may only shrink")
			}
		}
	}
	for _, line := range listed {
		assert.Contains(t, found, line, "take it out of %s", freeFunctions)
	}
	t.Logf("functions that take a *T of their package first: %d", len(found))
	assert.Less(t, len(listed), maxFreeFunctions)
}

// inliner finds remarks for the compiler's inliner.
var (
	inliner   = regexp.MustCompile(`(?i)noinline\b|\binliner\b|\binlined\b`)
	benchmark = regexp.MustCompile(`\bBenchmark\w+[^.]*\d`)
)

// TestInlinerRemarks: whether a function is inlined is worth a remark only with a benchmark's
// name and its figure.
func TestInlinerRemarks(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.product() {
			continue
		}
		for _, g := range f.ast.Comments {
			all := ""
			for _, c := range g.List { // Text leaves directives out
				all += c.Text + "\n"
			}
			if inliner.MatchString(all) {
				assert.Regexp(t, benchmark, all, f.at(g))
			}
		}
	}
}

// TestExportedNames: each public package has a budget of exported names, methods and fields.
func TestExportedNames(t *testing.T) {
	budget := map[string]int{}
	for _, line := range lines(t, exportBudget) {
		dir, n, _ := strings.Cut(line, " ")
		count, err := strconv.Atoi(n)
		require.NoError(t, err, line)
		budget[dir] = count
	}
	names := map[string]map[string]bool{}
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		if !f.isTest() && strings.HasPrefix(dir, "api/") && !strings.Contains(dir, "/internal") {
			if names[dir] == nil {
				names[dir] = map[string]bool{}
			}
			exported(f.ast, names[dir])
		}
	}
	for dir, found := range names {
		t.Logf("%s: %d exported names", dir, len(found))
		assert.LessOrEqual(t, len(found), budget[dir], "%s: exported names, methods and fields, beyond %s", dir, exportBudget)
	}
	for dir := range budget {
		assert.Contains(t, names, dir, exportBudget)
	}
}

// exported adds the exported names of a file, with methods and fields of exported types.
func exported(f *ast.File, names map[string]bool) {
	for _, decl := range f.Decls {
		switch x := decl.(type) {
		case *ast.FuncDecl:
			name := x.Name.Name
			if x.Recv != nil {
				if !ast.IsExported(receiver(x)) {
					continue
				}
				name = receiver(x) + "." + name
			}
			if x.Name.IsExported() {
				names[name] = true
			}
		case *ast.GenDecl:
			for _, spec := range x.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range s.Names {
						if id.IsExported() {
							names[id.Name] = true
						}
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						names[s.Name.Name] = true
						members(s, names)
					}
				}
			}
		}
	}
}

// members adds the exported fields of a struct, or methods of an interface.
func members(s *ast.TypeSpec, names map[string]bool) {
	var list *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			if id.IsExported() {
				names[s.Name.Name+"."+id.Name] = true
			}
		}
	}
}

// TestProductNeedsNoTests: what programs import imports nothing that is there for tests.
func TestProductNeedsNoTests(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.product() {
			continue
		}
		for _, pkg := range imports(t, f) {
			root, _, _ := strings.Cut(pkg, "/")
			assert.NotContains(t, []string{"internal", "interop", "itest", "bench", "examples"}, root, "%s imports %s", f.path, pkg)
		}
	}
}

// TestRoomsNotice: the tests above see what they are there to see.
func TestRoomsNotice(t *testing.T) {
	text := `package p
type T struct{ part }
type part struct{ n int }
type alias = *T
type wrapper struct{ t *T }
type pointer interface{ *T }
type other struct{ t *T; n int }
func (t *T) m() {}
func (p *part) m2() {}
func plain(t *T) {}
func named(t alias) {}
func wrapped(w wrapper) {}
func param[P interface{ *T }](t P) {}
func tilde[P ~*T](t P) {}
func constrained[P pointer](t P) {}
func fine(o other, t *T) {}
func value(t T) {}
`
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "p/p.go", text, parser.ParseComments)
	require.NoError(t, err)
	second, err := parser.ParseFile(fset, "p/q.go", "package p\nfunc (p *part) m3() {}\n", parser.ParseComments)
	require.NoError(t, err)
	l := layoutOf([]*goFile{{"p/p.go", []byte(text), parsed, fset}, {"p/q.go", nil, second, fset}})
	assert.ElementsMatch(t, []string{"plain", "named", "wrapped", "param", "tilde", "constrained"}, l.free["T"])
	assert.Equal(t, []string{"part"}, l.embeds["T"])
	assert.Len(t, l.spread("T"), 2)
	names := map[string]bool{}
	exported(parsed, names)
	assert.Equal(t, map[string]bool{"T": true}, names)
	for comment, want := range map[string]bool{
		"//go:noinline": false, "// f is small enough to be inlined.": false,
		"//go:noinline // BenchmarkEager: 380 ns instead of 410": true,
	} {
		require.Regexp(t, inliner, comment)
		assert.Equal(t, want, benchmark.MatchString(comment), comment)
	}
	for name, want := range map[string]bool{"a_linux.go": true, "a_linux_amd64.go": true, "rma_event.go": false, "linux.go": false} {
		f := &goFile{path: "p/" + name, ast: second}
		assert.Equal(t, want, f.tagged(), name)
	}
}
