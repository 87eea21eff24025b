package versus

import (
	"fmt"
	"os"
	"strings"
)

// Listening reports whether a program of this host listens on a TCP port, without calling
// it, for servers that answer one call only. Where the kernel has no list of them, known is
// false.
func Listening(port int) (is, known bool) {
	for _, list := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		known = true
		is = is || listens(string(text), port)
	}
	return is, known
}

// listens finds a port in the kernel's list, where the second field of a line is the local
// address and the fourth the state.
func listens(list string, port int) bool {
	const listen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], suffix) {
			return true
		}
	}
	return false
}
