//go:build linux

package libfabric_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/libfabric/agent"
	"github.com/efactor/efactor/interop/libfabric/emulator"
	"github.com/efactor/efactor/interop/libfabric/install"
)

var (
	seeds     = flag.Int("seeds", 0, "TestSeeds: that many floods in each environment")
	first     = flag.Uint64("seed", 1, "TestSeeds: the first seed")
	forTime   = flag.Duration("for", 0, "TestSeeds: floods for so long")
	reference = flag.Bool("reference", false, "TestReference: play with libfabric on both sides")
	gaps      = flag.Bool("gaps", false, "TestMatrix: play what is left out because it is known to fail, too")
	write     = flag.Bool("write", false, "TestMatrix: write the table in docs/interop.md")
)

// brief reports whether a part of the tests is sufficient: with the race detector
// every path has been run without it.
func brief() bool { return testenv.Short() || race }

// built is where programs are built, once for all tests, and fabrics where the fabrics
// are: in memory, if possible.
var built, fabrics string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if built, err = os.MkdirTemp("", "libfabric"); err != nil {
		panic(err)
	}
	const memory = "/dev/shm"
	if fabrics, err = os.MkdirTemp(memory, "efactor-libfabric-"); err != nil {
		fabrics = built
	}
	code := m.Run()
	stopShared()
	_ = os.RemoveAll(built)
	_ = os.RemoveAll(fabrics)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// tools are the programs that tests run.
type tools struct {
	install  install.Installation
	agent    []string
	emulator emulator.Program
	version  string // of libfabric
}

var findTools = sync.OnceValues(func() (t tools, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if t.install, err = install.Find(os.Getenv(install.Variable)); err != nil {
		return t, err
	}
	if t.agent, err = agent.Build(ctx, t.install, filepath.Join("testdata", "agent"), built); err != nil {
		return t, err
	}
	if t.version, err = agent.Version(ctx, t.agent); err != nil {
		return t, err
	}
	t.emulator, err = emulator.Build(ctx, built)
	return t, err
})

// need returns the tools, or ends the test.
func need(t *testing.T) tools {
	t.Helper()
	testenv.NeedAll(t, "libfabric")
	found, err := findTools()
	if missing(err) {
		testenv.Missing(t, "%v", err)
	}
	require.NoError(t, err)
	return found
}

// lastFabric numbers directories; tests run one after the other.
var lastFabric int

// fabric is a new directory for a fabric. A shared world lives longer than the test
// that made it, so it is not the test's.
func fabric(t *testing.T) string {
	lastFabric++
	dir := filepath.Join(fabrics, strconv.Itoa(lastFabric))
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}
