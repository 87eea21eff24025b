package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/install"
)

// folder makes empty files in a new folder.
func folder(t *testing.T, files ...string) string {
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o755))
	}
	return root
}

// TestMachine: without a folder nothing is named, and the machine's own is found.
func TestMachine(t *testing.T) {
	in, err := install.Find("")
	require.NoError(t, err)
	require.Equal(t, []string{"-lfabric"}, in.Flags())
	require.Equal(t, []string{"a", "b"}, in.Command("a", "b"))
}

// TestPackages: Debian's packages, unpacked, are run by their own loader.
func TestPackages(t *testing.T) {
	root := folder(t, "usr/include/rdma/fabric.h", "usr/bin/fi_info", "usr/lib/x86_64-linux-gnu/libfabric.so",
		"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/lib64/libother.so.1", "usr/lib/empty/readme")
	in, err := install.Find(root)
	require.NoError(t, err)
	lib, other := filepath.Join(root, "usr/lib/x86_64-linux-gnu"), filepath.Join(root, "usr/lib64")
	require.Contains(t, in.Flags(), "-I"+filepath.Join(root, "usr/include"))
	require.Contains(t, in.Flags(), "-L"+lib)
	require.Equal(t, []string{filepath.Join(lib, "ld-linux-x86-64.so.2"), "--library-path", lib + ":" + other, "a", "b"},
		in.Command("a", "b"))
	p, err := in.Program("fi_info")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "usr/bin/fi_info"), p)
	_, err = in.Program("fi_pingpong")
	require.ErrorIs(t, err, exec.ErrNotFound)
}

// TestPrefix: what make install wrote runs on the machine's C library.
func TestPrefix(t *testing.T) {
	root := folder(t, "include/rdma/fabric.h", "lib/libfabric.so")
	in, err := install.Find(root)
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/env", "LD_LIBRARY_PATH=" + filepath.Join(root, "lib"), "a"}, in.Command("a"))
	_, err = in.Program("fi_info")
	require.ErrorIs(t, err, exec.ErrNotFound)
}

// TestIncomplete: a folder that lacks a part is an error that names it.
func TestIncomplete(t *testing.T) {
	for _, files := range [][]string{{}, {"include/rdma/fabric.h"}, {"lib/libfabric.so"}} {
		_, err := install.Find(folder(t, files...))
		require.ErrorIs(t, err, install.ErrIncomplete)
	}
}
