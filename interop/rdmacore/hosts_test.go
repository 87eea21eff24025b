//go:build linux

package rdmacore

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// Two supervisors, each a host with an address of its own, on one fabric.
func TestHosts(t *testing.T) {
	for _, program := range []string{"pair", "stranger"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			fabric := newFabric(t)
			socket := filepath.Join(filepath.Dir(fabric), "socket")
			listener := start(t, launch{program: program, fabric: fabric, host: "a", args: []string{"listen", socket}})
			caller := start(t, launch{program: program, fabric: fabric, host: "b", args: []string{"call", socket}})
			caller.well(t)
			listener.well(t)
			assert.Empty(t, listener.out.String())
			assertEmpty(t, fabric)
			sameAsGolden(t, "hosts-"+program, caller.out.String())
		})
	}
}

// The program of one host is killed, or its supervisor: the other host's learns it.
func TestHostKilled(t *testing.T) {
	for _, whom := range []string{"program", "supervisor"} {
		t.Run(whom, func(t *testing.T) {
			t.Parallel()
			fabric := newFabric(t)
			socket := filepath.Join(filepath.Dir(fabric), "socket")
			listener := start(t, launch{program: "killed", fabric: fabric, host: "a", args: []string{"listen", socket}})
			args := []string{"call", socket}
			want := 128 + int(unix.SIGKILL)
			if whom == "supervisor" {
				args = append(args, strconv.Itoa(listener.Process.Pid))
				want = -1 // it got the signal itself
			}
			caller := start(t, launch{program: "killed", fabric: fabric, host: "b", args: args})
			assert.Equal(t, want, listener.wait(t), "exit status of the listener")
			caller.well(t)
			out := caller.out.String()
			assert.Empty(t, listener.err.String(), "stderr of the listener")
			if whom == "supervisor" { // the other one may have ended before it searched for leftovers
				start(t, launch{program: "handle", fabric: fabric}).well(t)
			}
			assertEmpty(t, fabric)
			sameAsGolden(t, "hosts-killed", out)
		})
	}
}
