package devicetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// lender is a process of whose memory regions are made, for devices with
// Info.Foreign. Its memory is a file that the test has mapped as well, so that cases
// see it as they see their own.
type lender struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	base uint64 // where the file is mapped there
	mem  []byte // and here
	used int
}

const (
	lenderVar  = "EFACTOR_DEVICETEST_LENDER"
	lenderSize = 64 << 20
	lenderFile = 3 // the descriptor
	lenderPage = 64 << 10
)

// The test binary is the other process, too, for every driver's test, so this cannot
// be left to a TestMain.
func init() {
	if os.Getenv(lenderVar) == "" {
		return
	}
	if err := playLender(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lender:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// wish is a command to a lender about its memory, one per line.
type wish struct {
	Unmap, Protect bool // so that it cannot be written to
	Off, Len       int
}

// playLender maps the file, prints the address, and carries out commands until in
// ends.
func playLender(in io.Reader, out io.Writer) error {
	mem, err := mapLent(lenderFile)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, addressOf(mem))
	for wishes := json.NewDecoder(in); ; {
		var w wish
		if err := wishes.Decode(&w); err != nil {
			return nil // the other side has ended
		}
		if err := w.grant(mem); err != nil {
			return err
		}
		fmt.Fprintln(out, "done")
	}
}

// startLender makes the world's regions of another process's memory from now on.
func (w *world) startLender() *lender {
	w.Helper()
	file, mem, err := makeLent(lenderSize)
	require.NoError(w, err)
	w.Cleanup(func() { unmapLent(mem) })
	defer file.Close()
	l := &lender{cmd: exec.Command(os.Args[0]), mem: mem}
	l.cmd.Env = append(os.Environ(), lenderVar+"=1")
	l.cmd.Stderr = os.Stderr
	l.cmd.ExtraFiles = []*os.File{file}
	l.in, err = l.cmd.StdinPipe()
	require.NoError(w, err)
	out, err := l.cmd.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, l.cmd.Start())
	w.Cleanup(l.kill)
	l.out = bufio.NewScanner(out)
	_, err = fmt.Sscan(l.line(w), &l.base)
	require.NoError(w, err)
	w.lender = l
	return l
}

func (l *lender) line(w *world) string {
	require.True(w, l.out.Scan(), "the lender has ended: %v", l.out.Err())
	return l.out.Text()
}

// kill ends the process at an arbitrary instruction. Its number is free afterwards.
func (l *lender) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

func (l *lender) pid() int { return l.cmd.Process.Pid }

// do makes the process carry out a command about a region of its memory.
func (l *lender) do(w *world, mr device.MR, wi wish) {
	wi.Off += int(mr.Addr() - l.base)
	require.NoError(w, json.NewEncoder(l.in).Encode(wi))
	require.Equal(w, "done", l.line(w))
}

// lent is a region of a lender's memory, with the bytes as the test has them.
type lent struct {
	device.MR
	bytes []byte
}

func (m *lent) Bytes() []byte { return m.bytes }

// lend makes a region of a device of n bytes that were not in use before.
func (l *lender) lend(d device.Device, n int, a device.Access) (device.MR, error) {
	if n <= 0 || n > len(l.mem)-l.used {
		return nil, fmt.Errorf("devicetest: the lender has %d bytes left, not %d", len(l.mem)-l.used, n)
	}
	at := l.used
	mr, err := d.RegisterForeign(l.pid(), l.base+uint64(at), n, a)
	if err != nil {
		return nil, err
	}
	l.used += (n + lenderPage - 1) &^ (lenderPage - 1)
	return &lent{mr, l.mem[at : at+n : at+n]}, nil
}
