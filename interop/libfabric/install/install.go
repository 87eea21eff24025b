package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Variable is the environment variable that names the folder.
const Variable = "EFACTOR_LIBFABRIC"

// ErrIncomplete is of a folder without headers or without a library.
var ErrIncomplete = errors.New("install: no libfabric")

// Installation is where a libfabric is. The zero value is the machine's own.
type Installation struct {
	Root      string
	Headers   string
	Libraries []string // where libraries are, the first has libfabric
	Programs  string   // "" if there are none
	Loader    string   // of the folder's own C library, "" if it has none
}

// Find looks at what is below root: /usr/include or /include, a folder with libfabric.so,
// and optionally programs and a loader. An empty root names the machine's own.
func Find(root string) (in Installation, err error) {
	if root == "" {
		return in, nil
	}
	if in.Root, err = filepath.Abs(root); err != nil {
		return in, err
	}
	header := in.first("usr/include/rdma/fabric.h", "include/rdma/fabric.h")
	if header == "" {
		return in, fmt.Errorf("%w: %s has no rdma/fabric.h in usr/include or include", ErrIncomplete, in.Root)
	}
	in.Headers = filepath.Dir(filepath.Dir(header))
	in.addLibraries()
	if len(in.Libraries) == 0 {
		return in, fmt.Errorf("%w: %s has no libfabric.so in usr/lib*, usr/lib/*, lib* or lib/*", ErrIncomplete, in.Root)
	}
	if p := in.first("usr/bin/fi_info", "bin/fi_info"); p != "" {
		in.Programs = filepath.Dir(p)
	}
	for _, dir := range in.Libraries {
		if l := first(filepath.Join(dir, "ld-linux*.so.*")); l != "" {
			in.Loader = l
			break
		}
	}
	return in, nil
}

// addLibraries finds libfabric, and the folders beside it that have other libraries.
func (in *Installation) addLibraries() {
	var others []string
	for _, pattern := range []string{"usr/lib*", "usr/lib/*", "lib*", "lib/*"} {
		dirs, _ := filepath.Glob(filepath.Join(in.Root, pattern))
		for _, dir := range dirs {
			switch {
			case first(filepath.Join(dir, "libfabric.so")) != "":
				in.Libraries = append(in.Libraries, dir)
			case first(filepath.Join(dir, "lib*.so.*")) != "":
				others = append(others, dir)
			}
		}
	}
	if len(in.Libraries) > 0 {
		in.Libraries = append(in.Libraries, others...)
	}
}

// first is the first path that is there, "" if none is.
func (in Installation) first(paths ...string) string {
	for _, p := range paths {
		if found := first(filepath.Join(in.Root, p)); found != "" {
			return found
		}
	}
	return ""
}

func first(pattern string) string {
	if all, _ := filepath.Glob(pattern); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Flags are the compiler's, of a program that uses libfabric.
func (in Installation) Flags() []string {
	if in.Root == "" {
		return []string{"-lfabric"}
	}
	// What libfabric itself uses may need a newer C library than the machine has.
	flags := []string{"-I" + in.Headers, "-Wl,--unresolved-symbols=ignore-in-shared-libs"}
	for _, dir := range in.Libraries {
		flags = append(flags, "-L"+dir)
	}
	return append(flags, "-lfabric")
}

// Command is the line that runs a program on this libfabric.
func (in Installation) Command(program string, args ...string) []string {
	path := strings.Join(in.Libraries, ":")
	switch {
	case in.Root == "":
		return append([]string{program}, args...)
	case in.Loader != "":
		return append([]string{in.Loader, "--library-path", path, program}, args...)
	}
	return append([]string{"/usr/bin/env", "LD_LIBRARY_PATH=" + path, program}, args...)
}

// Program is the path of one of libfabric's own programs.
func (in Installation) Program(name string) (string, error) {
	if in.Root == "" {
		return exec.LookPath(name)
	}
	path := filepath.Join(in.Programs, name)
	if _, err := os.Stat(path); in.Programs == "" || err != nil {
		return "", fmt.Errorf("install: %s in %s: %w", name, in.Root, exec.ErrNotFound)
	}
	return path, nil
}
