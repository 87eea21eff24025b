//go:build linux

package memory_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/interop/efaemu/memory"
)

// roleVar makes the test binary the other process: it has a page with a text at its
// end, an unmapped page behind it, prints the address and waits for its input's
// end.
const roleVar = "EFACTOR_MEMORY_TEST_OTHER"

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) != "" {
		fmt.Println(uintptr(unsafe.Pointer(&island()[0])))
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var page = os.Getpagesize()

const text = "at the border"

// island is two pages between two that are not mapped: the first can be read and
// written, the second only read. The text, with its zero byte, ends the first one.
func island() []byte {
	b, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	copy(b[2*page-len(text)-1:], text)
	copy(b[2*page:], "read only")
	for _, p := range []struct{ at, prot int }{{0, unix.PROT_NONE}, {2, unix.PROT_READ}, {3, unix.PROT_NONE}} {
		if err := unix.Mprotect(b[p.at*page:(p.at+1)*page], p.prot); err != nil {
			panic(err)
		}
	}
	return b[page : 3*page]
}

// spaces gives the test this process and another one, each with an island at base.
func spaces(t *testing.T, test func(t *testing.T, s memory.Space, base uint64)) {
	t.Run("self", func(t *testing.T) {
		b := island()
		s := memory.Self()
		require.Equal(t, os.Getpid(), s.PID())
		test(t, s, uint64(uintptr(unsafe.Pointer(&b[0]))))
	})
	t.Run("process", func(t *testing.T) {
		pid, base, _ := other(t)
		s := memory.Process(pid)
		require.Equal(t, pid, s.PID())
		test(t, s, base)
	})
}

// other starts another process; end ends it.
func other(t *testing.T) (pid int, base uint64, end func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=1", "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	_, err = fmt.Fscan(out, &base)
	require.NoError(t, err)
	return cmd.Process.Pid, base, end
}

func TestTransfers(t *testing.T) {
	size := uint64(page)
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		for _, c := range []struct {
			name        string
			at, n       uint64
			read, write error
		}{
			{"nothing anywhere", 1 << 63, 0, nil, nil},
			{"inside", base + 8, 100, nil, nil},
			{"two pages", base, 2 * size, nil, memory.ErrFault},
			{"second page", base + size, 1, nil, memory.ErrFault},
			{"before", base - 1, 1, memory.ErrFault, memory.ErrFault},
			{"begins before", base - 1, 2, memory.ErrFault, memory.ErrFault},
			{"ends behind", base + size, size + 1, memory.ErrFault, memory.ErrFault},
			{"null", 0, 1, memory.ErrFault, memory.ErrFault},
			{"kernel's", 1 << 63, 8, memory.ErrFault, memory.ErrFault},
			{"around", ^uint64(0) - 3, 8, memory.ErrFault, memory.ErrFault},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := make([]byte, c.n)
				require.ErrorIs(t, s.ReadAt(b, c.at), c.read)
				require.ErrorIs(t, s.WriteAt(b, c.at), c.write)
			})
		}
	})
}

func TestReadWhatWasWritten(t *testing.T) {
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		want := []byte(strings.Repeat("0123456789abcdef", page/16))
		require.NoError(t, s.WriteAt(want, base))
		got := make([]byte, page+4)
		require.NoError(t, s.ReadAt(got, base))
		require.Equal(t, string(want)+"read", string(got))
	})
}

// Bytes before a fault are moved: callers may not rely on all or nothing.
func TestWriteUpToTheFault(t *testing.T) {
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		edge := base + uint64(page)
		require.ErrorIs(t, s.WriteAt([]byte("abcdefgh"), edge-4), memory.ErrFault)
		got := make([]byte, 8)
		require.NoError(t, s.ReadAt(got, edge-4))
		require.Equal(t, "abcdread", string(got))
	})
}

func TestString(t *testing.T) {
	size := uint64(page)
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		str := base + size - uint64(len(text)) - 1
		got, err := memory.String(s, str, len(text)+1)
		require.NoError(t, err)
		require.Equal(t, text, got)

		_, err = memory.String(s, str, len(text))
		require.ErrorIs(t, err, memory.ErrTooLong)

		require.NoError(t, s.WriteAt([]byte("!"), base+size-1)) // goes on in the second page
		got, err = memory.String(s, str, 4096)
		require.NoError(t, err)
		require.Equal(t, text+"!read only", got)

		_, err = memory.String(s, base-1, 10)
		require.ErrorIs(t, err, memory.ErrFault)
		_, err = memory.String(s, ^uint64(0), 10)
		require.ErrorIs(t, err, memory.ErrFault)
	})
}

// The last byte before an unmapped page ends a string like any other.
func TestStringBeforeNothing(t *testing.T) {
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		end := base + 2*uint64(page)
		got, err := memory.String(s, end-3, 4096)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

func TestGone(t *testing.T) {
	pid, base, end := other(t)
	s := memory.Process(pid)
	require.NoError(t, s.ReadAt(make([]byte, 1), base))
	end()
	for range 2 {
		require.ErrorIs(t, s.ReadAt(make([]byte, 1), base), memory.ErrGone)
		require.ErrorIs(t, s.WriteAt(make([]byte, 1), base), memory.ErrGone)
	}
	_, err := memory.String(s, base, 10)
	require.ErrorIs(t, err, memory.ErrGone)
}

func TestTransferAllocatesNothing(t *testing.T) {
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		b := make([]byte, 64)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = s.ReadAt(b, base)
			_ = s.WriteAt(b, base)
		}))
	})
}
