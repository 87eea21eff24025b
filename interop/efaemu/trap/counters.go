//go:build linux && (amd64 || arm64)

package trap

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/efactor/efactor/interop/efaemu/memory"
)

// maxPath is the kernel's PATH_MAX.
const maxPath = 4096

// counters keeps the files of the hardware counters: each is made anew when the program
// opens it, so that it says what is so then.
type counters struct {
	dir  string // sysfs
	read func() map[string]uint64
	at   map[string]string // places below the RDMA device, by the name of the file
}

// newCounters makes the files; nil: there are none.
func newCounters(dir string, read func() map[string]uint64) (*counters, error) {
	if read == nil {
		return nil, nil
	}
	c := &counters{dir: dir, read: read, at: make(map[string]string)}
	for at := range read() {
		c.at[path.Base(at)] = at
		if err := os.MkdirAll(filepath.Dir(c.file(at)), 0o755); err != nil {
			return nil, fmt.Errorf("trap: %w", err)
		}
		if err := c.write(at, 0); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *counters) file(at string) string {
	return filepath.Join(c.dir, "class/infiniband", ibName, at)
}

// opened brings a counter up to date if the program opens a file of its name; which
// folder it is in does not matter, since it may be the current one. id is the call's.
func (c *counters) opened(l *call, addr uint64) {
	if c == nil {
		return
	}
	name, err := memory.String(l.space(), addr, maxPath)
	if err != nil {
		return // the kernel's to refuse
	}
	if at, ok := c.at[path.Base(name)]; ok {
		_ = c.write(at, l.ID) // the folder is being removed: the program is dead
	}
}

// write replaces a file at once, for those who read it meanwhile.
func (c *counters) write(at string, id uint64) error {
	next := filepath.Join(c.dir, "."+strconv.FormatUint(id, 10))
	err := os.WriteFile(next, []byte(strconv.FormatUint(c.read()[at], 10)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, c.file(at))
	}
	if err != nil {
		return fmt.Errorf("trap: counter: %w", err)
	}
	return nil
}
