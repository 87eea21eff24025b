//go:build linux && (amd64 || arm64)

package nthcall

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/internal/testenv"
)

var (
	long = flag.Bool("nth.long", false, "every call at many of its times, with every error number")
	only = flag.String("nth.call", "", "rows of this call or method alone")
)

func TestMain(m *testing.M) {
	if arg := os.Getenv(childEnv); arg != "" {
		runChild(arg)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestNthCall prints, for each device, what happened when each call failed.
func TestNthCall(t *testing.T) {
	if err := seccomp.Check(); err != nil {
		testenv.Missing(t, "%v", err)
	}
	how := effort{each: 2}
	switch {
	case *long:
		how = effort{each: 40, errnos: true}
	case testenv.Short():
		how = effort{each: 1, third: true}
	}
	for n, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fabric")
			x := &runner{arg: k.name + "=" + dir}
			defer x.close()
			tab := newTable(k.name)
			for i, r := range how.rows(tab.seen(t, x)) {
				if how.third && *only == "" && (i+n)%3 > 0 {
					continue // another kind has it
				}
				if *only == "" || *only == callName(r.NR) || *only == r.Method {
					tab.add(t, x, r)
				}
			}
			t.Logf("\n%s", tab)
			for _, o := range tab.open {
				t.Errorf("open row: %s", o)
			}
		})
	}
}

// TestFirstContact has calls fail from the first contact with a peer on, once, and for a while for want of descriptors
// or memory: the call says so, and the next one works.
func TestFirstContact(t *testing.T) {
	if err := seccomp.Check(); err != nil {
		testenv.Missing(t, "%v", err)
	}
	for _, k := range kinds {
		if k.config == nil {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			x := &runner{arg: k.name + "=" + filepath.Join(t.TempDir(), "fabric")}
			defer x.close()
			tab := newTable(k.name)
			tab.seen(t, x)
			for _, nr := range []uint32{
				unix.SYS_OPENAT, unix.SYS_MMAP, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_EPOLL_CTL, unix.SYS_ACCEPT4, unix.SYS_GETSOCKOPT,
			} {
				for _, e := range callErrnos(nr) {
					if spells(nr, e) {
						tab.add(t, x, row{NR: nr, N: 1, Errno: e, Spell: spell, Touch: true})
					}
					for n := 1; n <= 3 && slices.Contains(passing, e); n++ {
						tab.add(t, x, row{NR: nr, N: n, Errno: e, Touch: true})
					}
				}
			}
			t.Logf("\n%s", tab)
			for _, o := range tab.open {
				t.Errorf("open row: %s", o)
			}
		})
	}
}

// seen runs rounds in which nothing fails: one with the fabric's own devices and one with
// devices whose methods are counted.
func (t *table) seen(tt *testing.T, x *runner) (map[uint32]int, map[string]int) {
	var counts map[uint32]int
	var methods map[string]int
	for _, r := range []row{{}, {Method: "none"}} {
		for i := 0; ; i++ { // the first ones make what stays, such as memory of the Go runtime
			rep, err := x.run(r)
			require.NoError(tt, err)
			require.Empty(tt, rep.Bad, "no call failed")
			if i > 0 && len(rep.Left) == 0 {
				methods = rep.Methods
				break
			}
			require.Less(tt, i, 8, rep.Left)
		}
		if r.Method == "" {
			counts, _, _ = x.sup.seen()
		}
	}
	for nr, n := range counts {
		t.line(callName(nr)).seen = n
	}
	for m, n := range methods {
		t.line(m).seen = n
	}
	return counts, methods
}

// add runs a row.
func (t *table) add(tt *testing.T, x *runner, r row) {
	name := r.Method
	if name == "" {
		name = callName(r.NR)
	}
	l := t.line(name)
	l.rows++
	rep, err := x.run(r)
	if err != nil {
		l.open++
		t.open = append(t.open, fmt.Sprintf("%s: %v", r, err))
		return
	}
	_, hit, recent := x.sup.seen()
	if r.Method == "" && hit == "" || r.Method != "" && !rep.Hit {
		l.missed++
		return
	}
	left := rep.Left
	for range 8 { // the Go runtime's own memory grows once in a while; what leaks does so each time
		if len(left) == 1 && strings.HasSuffix(left[0], anonymous) {
			again, err := x.run(r)
			require.NoError(tt, err)
			left = again.Left
		}
	}
	l.worst = max(l.worst, rep.Took)
	bad := slices.Concat(rep.Bad, left)
	switch {
	case len(bad) > 0:
		l.open++
		t.open = append(t.open, fmt.Sprintf("%s (%s)\n\tafter %s\n\t%s\n\terrors: %q", r, hit, strings.Join(recent, " "), strings.Join(bad, "\n\t"), rep.Errs))
	case len(rep.Errs) > 0:
		l.errs++
	default:
		l.absorbed++
	}
}

// unexpected leaves out the one thing that is left since the call failed that would have
// given it back.
func (r row) unexpected(left []string) []string {
	prefix := ""
	switch {
	case r.Method != "":
	case r.NR == unix.SYS_CLOSE:
		prefix = "descriptor "
	case r.NR == unix.SYS_MUNMAP:
		prefix = "mapping "
	case strings.HasPrefix(callName(r.NR), "unlink"):
		prefix = "file "
	}
	for i, what := range left {
		if prefix != "" && strings.HasPrefix(what, prefix) {
			return slices.Delete(slices.Clone(left), i, i+1)
		}
	}
	return left
}
