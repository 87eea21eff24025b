//go:build linux

package libfabric_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInstallation: of a libfabric that EFACTOR_LIBFABRIC names, the process has what the
// folder has, and nothing of the machine's in its place.
func TestInstallation(t *testing.T) {
	in := need(t).install
	if in.Root == "" {
		t.Skip("it is the machine's own libfabric")
	}
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
	defer cancel()
	w := bareWorld(t, ctx, settings[1])
	defer w.end(t)
	require.NoError(t, w.lf.Open(ctx), "%s", w)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.lf.PID()))
	require.NoError(t, err)
	theirs := map[string]bool{}
	for l := range strings.Lines(string(maps)) {
		f := strings.Fields(l)
		if len(f) < 6 || !strings.Contains(f[5], ".so") {
			continue
		}
		name := filepath.Base(f[5])
		if strings.HasPrefix(f[5], in.Root+"/") {
			theirs[name[:strings.Index(name, ".so")]] = true
			continue
		}
		for _, dir := range in.Libraries {
			require.NoFileExists(t, filepath.Join(dir, name), "it has %s", f[5])
		}
	}
	require.True(t, theirs["libfabric"], "%s", maps)
}
