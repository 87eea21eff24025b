package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLines: the five lines about sending, and those about receiving, are the same in
// docs/architecture.md and above the code, and each file in them exists.
func TestLines(t *testing.T) {
	doc := read(t, "docs/architecture.md")
	_, doc, ok := strings.Cut(doc, "\n## One way for a message\n")
	require.True(t, ok)
	for _, file := range []string{"actors/ope/txe.go", "actors/peer/recv.go"} {
		_, part, ok := strings.Cut(doc, "("+file+" begins with the same lines)")
		require.True(t, ok, file)
		lines := numbered.FindAllString(part, 5)
		require.Len(t, lines, 5)
		var code []string
		for _, l := range numbered.FindAllString(strings.ReplaceAll(read(t, file), "//  ", ""), 5) {
			code = append(code, strings.TrimSpace(l))
		}
		require.Equal(t, lines, code, file)
		for i, l := range lines {
			require.Equal(t, byte('1'+i), l[0])
			list, _, ok := strings.Cut(l[len("1. "):], ": ")
			require.True(t, ok, l)
			dir := ""
			for _, name := range strings.Split(list, ", ") {
				if d := filepath.Dir(name); d != "." {
					dir = d
				}
				require.FileExists(t, filepath.Join("../..", dir, filepath.Base(name)), l)
			}
		}
	}
}

var numbered = regexp.MustCompile(`(?m)^[1-5]\. .*$`)

func read(t *testing.T, file string) string {
	b, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	return string(b)
}
