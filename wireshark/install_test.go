package wireshark_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInstalled installs the dissector as README.md says. Wireshark then loads each
// file of it as a plugin, which must do no harm; and it has the fields that README.md
// names.
func TestInstalled(t *testing.T) {
	home := t.TempDir()
	plugins := filepath.Join(home, ".local/lib/wireshark/plugins/efa_rdm")
	require.NoError(t, os.CopyFS(plugins, os.DirFS("efa_rdm")))
	rec := newRecording(t)
	rec.bytes(true, alice, bob, []byte{3, 4})
	file := rec.save()
	require.Equal(t, "efa_rdm\n", string(tsharkAt(t, home, "-2", "-r", file, "-T", "fields", "-e", "frame.protocols")))

	fields := map[string]bool{}
	for line := range strings.Lines(string(tsharkAt(t, home, "-G", "fields"))) {
		if words := strings.Split(line, "\t"); words[0] == "F" {
			fields[words[2]] = true
		}
	}
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`efa_rdm(\.[a-z0-9_]+)+`).FindAllString(string(text), -1)
	require.Greater(t, len(named), 60)
	for _, name := range named {
		if name != "efa_rdm.lua" {
			require.True(t, fields[name], "README.md: %s", name)
		}
	}
}
