package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mapped returns nil if the n bytes from addr on are mapped, and writable if write is
// set; ErrFault: not all of them. A device's driver asks for this when it pins memory.
func (s *process) Mapped(addr, n uint64, write bool) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", s.pid))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrGone
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFault, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for at, end := addr, addr+n; at < end && lines.Scan(); {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights); err != nil || to <= at {
			continue
		}
		if from > at || write && !strings.Contains(rights, "w") {
			return ErrFault
		}
		if at = to; at >= end {
			return nil
		}
	}
	if err := lines.Err(); errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return ErrFault
}
