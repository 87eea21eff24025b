//go:build linux && (amd64 || arm64)

package trap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// task is the thread behind a call.
type task struct {
	call  *call
	ses   *session
	tgid  int
	space memory.Space
}

// newTask finds out whose thread it is: a thread may end while its process, and
// what that has registered, lives on.
func newTask(c *call, ses *session) (*task, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.TID))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(status) {
		if v, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			tgid, err := strconv.Atoi(string(bytes.TrimSpace(v)))
			if err != nil {
				return nil, fmt.Errorf("trap: status of %d: %w", c.TID, err)
			}
			return &task{call: c, ses: ses, tgid: tgid, space: memory.Process(tgid)}, nil
		}
	}
	return nil, fmt.Errorf("trap: status of %d has no Tgid", c.TID)
}

// Space implements kernel.Task.
func (t *task) Space() memory.Space { return t.space }

// InstallFD implements kernel.Task.
func (t *task) InstallFD(fd int, cloexec bool) (int, error) {
	return t.call.listener.Add(t.call.ID, fd, cloexec)
}

// StatFD implements kernel.Task.
func (t *task) StatFD(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", t.call.TID, fd), &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = unix.EBADF
		}
		return 0, 0, err
	}
	return st.Dev, st.Ino, nil
}

// GetFD implements kernel.Task.
func (t *task) GetFD(fd int) (int, error) {
	pid, err := unix.PidfdOpen(t.tgid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pid)
	return unix.PidfdGetfd(pid, fd, 0)
}

// Maps implements kernel.Task.
func (t *task) Maps() ([]kernel.Mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", t.tgid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var maps []kernel.Mapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m, id, ok := parseMapping(lines.Text())
		if ok && id == t.ses.id {
			maps = append(maps, m)
		}
	}
	return maps, lines.Err()
}

// parseMapping reads a line of /proc/PID/maps:
//
//	7f1c4e5d6000-7f1c4e5d8000 rw-s 00003000 00:01 2051    /memfd:uverbs0.1 (deleted)
func parseMapping(line string) (m kernel.Mapping, id fileID, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || len(f[1]) != 4 {
		return m, id, false
	}
	start, end, ok1 := strings.Cut(f[0], "-")
	major, minor, ok2 := strings.Cut(f[3], ":")
	if !ok1 || !ok2 {
		return m, id, false
	}
	var n [5]uint64
	for i, s := range []string{start, end, f[2], major, minor} {
		v, err := strconv.ParseUint(s, 16, 64)
		if err != nil {
			return m, id, false
		}
		n[i] = v
	}
	ino, err := strconv.ParseUint(f[4], 10, 64)
	if err != nil || n[1] < n[0] {
		return m, id, false
	}
	m = kernel.Mapping{Start: n[0], Length: n[1] - n[0], Offset: n[2], Shared: f[1][3] == 's'}
	for i, prot := range []int{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
		if f[1][i] != '-' {
			m.Prot |= prot
		}
	}
	return m, fileID{unix.Mkdev(uint32(n[3]), uint32(n[4])), ino}, true
}
