//go:build linux && (amd64 || arm64)

package trap

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func init() {
	roles["supervise"] = supervise
	roles["check"] = func([]string) error {
		for _, f := range Check(context.Background()) {
			fmt.Println(f.Name, f.Err)
		}
		return nil
	}
}

// supervise runs a program (or, with no arguments, a puppet) in a supervisor of its own.
func supervise(args []string) error {
	if len(args) == 0 {
		args = []string{os.Args[0]}
		if err := os.Setenv(roleVar, "puppet"); err != nil {
			return err
		}
	}
	status, err := Run(context.Background(), Config{Device: newFake()}, args)
	if err != nil {
		return err
	}
	os.Exit(status)
	return nil
}

func TestExitStatus(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\x7fELF, or so it says"), 0o755))
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o644))
	for _, c := range []struct {
		name   string
		argv   []string
		status int
		err    error
		text   string
	}{
		{"success", []string{"true"}, 0, nil, ""},
		{"failure", []string{"sh", "-c", "exit 77"}, 77, nil, ""},
		{"arguments", []string{"sh", "-c", `test "$0 $1" = "a b  c" && exit 3`, "a", "b  c"}, 3, nil, ""},
		{"killed", []string{"sh", "-c", "kill -9 $$"}, 137, nil, ""},
		{"child of a child", []string{"sh", "-c", "(sh -c 'exit 4'); exit $?"}, 4, nil, ""},
		{"nothing", nil, 127, ErrNotFound, ""},
		{"unknown", []string{"no-such-program"}, 127, ErrNotFound, "no-such-program"},
		{"unknown path", []string{"/no/such/program"}, 127, ErrNotFound, "/no/such/program"},
		{"not executable", []string{plain}, 126, ErrCannot, plain},
		{"no program", []string{garbage}, 126, ErrCannot, garbage + ": exec format error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, err := runProgram(t, Config{Device: newFake()}, c.argv...).wait()
			require.Equal(t, c.status, status)
			require.ErrorIs(t, err, c.err)
			if c.err != nil {
				require.ErrorContains(t, err, c.text)
				require.NotContains(t, err.Error(), "\n", "one line")
			}
		})
	}
}

// TestCounters: a counter says what is so when it is opened, by whatever path; other files
// of the program's are its own.
func TestCounters(t *testing.T) {
	var n atomic.Uint64
	cfg := Config{Device: newFake(), PartID: 0xefa2, Counters: func() map[string]uint64 {
		return map[string]uint64{"ports/1/hw_counters/tx_bytes": n.Add(1), "hw_counters/cmds_err": 1<<64 - 1}
	}}
	const script = `d=$SYSFS_PATH/class/infiniband/efa_0
		cat $d/ports/1/hw_counters/tx_bytes; cd $d/ports/1/hw_counters; cat tx_bytes; ls; ls -A $SYSFS_PATH
		cat $d/hw_counters/cmds_err; echo mine >$TMPDIR/tx_bytes; cat $TMPDIR/tx_bytes`
	t.Setenv("TMPDIR", t.TempDir())
	status, out, err := runProgram(t, cfg, "sh", "-c", script).wait()
	require.NoError(t, err)
	require.Zero(t, status)
	words := strings.Fields(out)
	require.Equal(t, []string{"tx_bytes", "bus", "class", "devices", "18446744073709551615", "mine"}, words[2:])
	first, err := strconv.Atoi(words[0])
	require.NoError(t, err)
	second, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	require.Greater(t, second, first)
}

func TestSysfs(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cfg := Config{Device: newFake(), PartID: 0xefa2, GID: device.GID{0xfe, 0x80, 15: 7}}
	for _, c := range []struct{ path, want string }{
		{"class/infiniband_verbs/abi_version", "6"},
		{"class/infiniband_verbs/uverbs0/abi_version", "1"},
		{"class/infiniband_verbs/uverbs0/ibdev", "efa_0"},
		{"class/infiniband_verbs/uverbs0/dev", "231:192"},
		{"class/infiniband/efa_0/node_type", "7: unspecified"},
		{"class/infiniband/efa_0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0007"},
		{"class/infiniband/efa_0/ports/1/state", "4: ACTIVE"},
		{"class/infiniband/efa_0/ports/1/rate", "100 Gb/sec (4X EDR)"},
		{"class/infiniband/efa_0/ports/1/pkeys/0", "0xffff"},
		{"class/infiniband/efa_0/device/vendor", "0x1d0f"},
		{"class/infiniband/efa_0/device/device", "0xefa2"},
		{"class/infiniband/efa_0/device/modalias", "pci:v00001D0Fd0000EFA2sv00001D0Fsd0000EFA2bc02sc00i00"},
		{"class/infiniband/efa_0/device/driver/module_alias", "efa"},
	} {
		status, out, err := runProgram(t, cfg, "sh", "-c", `cat "$SYSFS_PATH/$0"`, c.path).wait()
		require.NoError(t, err)
		require.Zero(t, status)
		require.Equal(t, c.want+"\n", out, c.path)
	}
	_, out, err := runProgram(t, cfg, "sh", "-c", `readlink -f "$SYSFS_PATH/class/infiniband/efa_0/device"; readlink -f "$SYSFS_PATH/class/infiniband/efa_0/device/driver"`).wait()
	require.NoError(t, err)
	links := strings.Fields(out)
	require.Len(t, links, 2)
	require.Equal(t, "0000:00:06.0", filepath.Base(links[0]))
	require.Equal(t, "efa", filepath.Base(links[1]))

	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSignalsArePassedOn(t *testing.T) {
	signals := make(chan os.Signal, 1)
	j := runProgram(t, Config{Device: newFake(), Signals: signals}, "sh", "-c", `trap 'echo caught; exit 9' TERM; echo ready; while :; do read x || exit 1; done`)
	require.Equal(t, "ready", j.line())
	signals <- unix.SIGTERM
	_, err := j.in.WriteString("go on\n") // a shell runs traps between commands
	require.NoError(t, err)
	require.Equal(t, "caught", j.line())
	close(signals)
	status, _, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, 9, status)
}

// Processes that a program leaves running end with the context, too.
func TestCancelKillsAll(t *testing.T) {
	d := newFake()
	j := run(t, Config{Device: d}, "puppet")
	p := puppeteer{j, d}
	fd := p.number("open %d", unix.O_RDWR)
	child := p.number("spawn %d", fd)
	pid := p.number("pid")
	j.cancel()
	<-j.done
	require.NoError(t, j.err)
	require.Equal(t, 137, j.status)
	require.False(t, alive(child))
	require.False(t, alive(pid))
	require.Zero(t, d.live())
}

// A program's orphans are killed as the program would be.
func TestCancelKillsOrphans(t *testing.T) {
	j := runProgram(t, Config{Device: newFake()}, "sh", "-c", `exec 3<&0; (read x <&3) & echo $$ $!; exit 5`)
	var program, orphan int
	_, err := fmt.Sscan(j.line(), &program, &orphan)
	require.NoError(t, err)
	eventually(t, "the program's end", func() bool { return !alive(program) })
	require.True(t, alive(orphan))
	j.cancel()
	<-j.done
	require.NoError(t, j.err)
	require.Equal(t, 5, j.status)
	require.False(t, alive(orphan))
}

// own is a supervisor in a process of its own.
type own struct {
	*job
	cmd *exec.Cmd
	tmp string
}

func startOwn(t *testing.T, change func(*exec.Cmd), args ...string) own {
	needFeatures(t)
	tmp := t.TempDir()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(environment("supervise"), "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	if change != nil {
		change(cmd)
	}
	inR, in, err := os.Pipe()
	require.NoError(t, err)
	out, outW, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout = inR, outW
	require.NoError(t, cmd.Start())
	require.NoError(t, inR.Close())
	require.NoError(t, outW.Close())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	done := make(chan struct{})
	close(done)
	return own{&job{t: t, in: in, out: bufio.NewScanner(out), outFile: out, done: done}, cmd, tmp}
}

// A supervisor that is killed leaves nothing: no process of any generation, no
// directory.
func TestSupervisorDies(t *testing.T) {
	o := startOwn(t, nil)
	p := puppeteer{o.job, nil}
	pid := p.number("pid")
	fd := p.number("open %d", unix.O_RDWR)
	child := p.number("spawn %d", fd)
	guards := children(o.cmd.Process.Pid)
	require.Len(t, guards, 1)
	require.Equal(t, guards, parents(t, pid))
	left, err := os.ReadDir(o.tmp)
	require.NoError(t, err)
	require.Len(t, left, 1)

	require.NoError(t, o.cmd.Process.Kill())
	for _, victim := range []int{pid, child, guards[0]} {
		eventually(t, "death", func() bool { return !alive(victim) })
	}
	eventually(t, "no directory", func() bool {
		left, err := os.ReadDir(o.tmp)
		return err == nil && len(left) == 0
	})
}

func parents(t *testing.T, pid int) []int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	require.NoError(t, err)
	return []int{ppid}
}

// If it is the guard that is killed, the program goes with it.
func TestGuardDies(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	d := newFake()
	p := puppeteer{run(t, Config{Device: d}, "puppet"), d}
	pid := p.number("pid")
	p.number("open %d", unix.O_RDWR)
	require.NoError(t, unix.Kill(parents(t, pid)[0], unix.SIGKILL))
	eventually(t, "the program's death", func() bool { return !alive(pid) })
	status, _, err := p.wait()
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "guard")
	require.Equal(t, statusBroken, status)
	require.Zero(t, d.live())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNestedIsRefused(t *testing.T) {
	j := run(t, Config{Device: newFake()}, "check")
	status, out, err := j.wait()
	require.NoError(t, err)
	require.Zero(t, status)
	require.Contains(t, out, "something else supervises this process by seccomp already")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4, "one line each")
	for _, l := range lines[:3] {
		require.True(t, strings.HasSuffix(l, "<nil>"), l)
	}
}

func TestCheck(t *testing.T) {
	needFeatures(t)
	for _, f := range Check(t.Context()) {
		require.NoError(t, f.Err, f.Name)
	}
}

// Any user may supervise programs of his own.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this user is nobody special: all the other tests show it")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // open to others
	require.NoError(t, os.Chmod(dir, 0o777))
	program := filepath.Join(dir, "program")
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, self, 0o755))
	change := func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0], cmd.Dir = program, program, "/"
		cmd.Env = append(cmd.Env, "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	o := startOwn(t, change)
	p := puppeteer{o.job, nil}
	fd := p.number("open %d", unix.O_RDWR)
	p.number("mmap %d", fd)
	require.Equal(t, p.do("pid"), p.do("request %d %d 0", fd, opPID))
	_, err = fmt.Fprintln(p.in, "exit 6")
	require.NoError(t, err)
	require.ErrorContains(t, o.cmd.Wait(), "exit status 6")
}

// Process managers pass programs the numbers of their descriptors.
func TestDescriptorsAreInherited(t *testing.T) {
	const script = `cat <&5; for fd in /proc/$$/fd/*; do echo ${fd##*/}; done; echo end`
	list := func(how ...string) (lines []string) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		_, err = w.WriteString("from afar\n")
		require.NoError(t, err)
		require.NoError(t, w.Close())
		defer r.Close()
		o := startOwn(t, func(cmd *exec.Cmd) {
			cmd.ExtraFiles = []*os.File{2: r} // 5
			if how == nil {
				cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
			}
		}, how...)
		for l := o.line(); l != "end"; l = o.line() {
			lines = append(lines, l)
		}
		require.NoError(t, o.cmd.Wait())
		return lines
	}
	without := list()
	require.Equal(t, "from afar", without[0])
	require.Equal(t, without, list("sh", "-c", script))
}
