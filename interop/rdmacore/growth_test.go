//go:build linux

package rdmacore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// usage is a process's use of resources.
type usage struct {
	resident, shared int // bytes; shared: of files and of shared memory
	descriptors      int
	mappings         int // of device files and of the fabric
}

func usageOf(t *testing.T, pid int, fabric string) usage {
	t.Helper()
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	var u usage
	statm, err := os.ReadFile(at("statm"))
	require.NoError(t, err)
	fields := bytes.Fields(statm)
	require.Greater(t, len(fields), 2)
	for i, v := range []*int{&u.resident, &u.shared} {
		*v, err = strconv.Atoi(string(fields[i+1]))
		require.NoError(t, err)
		*v *= os.Getpagesize()
	}
	files, err := os.ReadDir(at("fd"))
	require.NoError(t, err)
	u.descriptors = len(files)
	maps, err := os.ReadFile(at("maps"))
	require.NoError(t, err)
	u.mappings = bytes.Count(maps, []byte("memfd:uverbs0")) + bytes.Count(maps, []byte(fabric+"/"))
	return u
}

// A supervisor that has seen 200 lives more, of three queue pairs each, has no more
// descriptors and mappings than before, and hardly more memory.
func TestGrowth(t *testing.T) {
	t.Parallel()
	lives := "200"
	if testenv.Short() {
		lives = "40"
	}
	s := start(t, launch{program: "again", args: []string{"20", lives}, follow: true})
	assert.Equal(t, "ok 20 lives", s.line(t))
	before := usageOf(t, s.Process.Pid, s.fabric)
	_, err := s.in.Write([]byte("\n"))
	require.NoError(t, err)
	assert.Equal(t, "ok "+lives+" more", s.line(t))
	const last = 20 // which may not be over for the supervisor
	after := usageOf(t, s.Process.Pid, s.fabric)
	for end := clock.System.Now().Add(patience); clock.System.Now() < end; _, _ = unix.Poll(nil, 10) { // or more, on a busy machine
		if after.descriptors <= before.descriptors+last && after.mappings <= before.mappings+last {
			break
		}
		after = usageOf(t, s.Process.Pid, s.fabric)
	}
	_, err = s.in.Write([]byte("\n"))
	require.NoError(t, err)
	s.good(t)
	t.Logf("before %+v, after %+v", before, after)
	assert.LessOrEqual(t, after.descriptors, before.descriptors+last, "descriptors")
	assert.LessOrEqual(t, after.mappings, before.mappings+last, "mappings")
	assert.Less(t, after.shared, before.shared+1<<20, "shared memory")
	assert.Less(t, after.resident, before.resident+16<<20, "memory")
}
