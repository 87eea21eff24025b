package repository_test

import (
	"go/ast"
	"go/doc"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unexampled are the types with methods that need no example of their own, since those of
// others show them.
var unexampled = []string{
	"amo.Half", "efa.DataLayout", // values
	"coll.Comm",                                      // every collective
	"efa.Fabric", "efa.Domain", "efa.EndpointConfig", // ExampleOpen
	"efa.DeviceInfo",                 // ExampleDevices
	"efa.Delivery",                   // ExampleEndpoint_Next
	"efa.Message",                    // ExampleEndpoint_Reply
	"efa.Remote", "efa.MemoryRegion", // ExampleMemory
	"efa.Claimed",                                                          // ExampleEndpoint_ClaimTag
	"efanet.Addr", "efanet.Conn", "efanet.Listener", "efanet.ListenConfig", // ExampleListen
	"launch.Group",                                           // ExampleConfig_Init
	"remote.Remote",                                          // ExampleConfig_Listen
	"efadebug.Capture",                                       // ExampleNewCapture
	"efatest.Device", "efatest.World", "efatest.ReceiveGate", // Example
}

// plainMethods are those that every type may have.
var plainMethods = []string{"String", "Error", "Unwrap", "Name"}

// TestExamples: every type with methods in a package with a promise has an example that runs as a
// test, and so has the package.
func TestExamples(t *testing.T) {
	shown, types := map[string]bool{}, map[string]bool{}
	list := promised(t)
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		if !list[dir] {
			continue
		}
		pkg := path.Base(dir)
		if f.isTest() {
			for _, x := range doc.Examples(f.ast) {
				assert.True(t, x.Output != "" || x.EmptyOutput, "%s: Example%s has no output, and does not run", f.path, x.Name)
				name, _, _ := strings.Cut(x.Name, "_")
				shown[pkg+"."+name], shown[pkg] = true, true
			}
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.IsExported() && !slices.Contains(plainMethods, fn.Name.Name) {
				if name := receiver(fn); ast.IsExported(name) {
					types[pkg+"."+name] = true
				}
			}
		}
	}
	require.NotEmpty(t, types)
	for name := range types {
		if !slices.Contains(unexampled, name) {
			assert.True(t, shown[name], "%s has methods and no example", name)
		}
	}
	for _, name := range unexampled {
		assert.True(t, types[name], "unexampled has %s, which is no type with methods", name)
	}
	for _, pkg := range []string{"efa", "coll", "efanet", "remote", "launch", "efadebug", "efatest"} {
		assert.True(t, shown[pkg], "package %s has no example", pkg)
	}
}
