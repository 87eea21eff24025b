package tutorial

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// page is the tutorial as it is published.
func page(t *testing.T) string {
	text, err := os.ReadFile("../../docs/tutorial.md")
	require.NoError(t, err)
	return string(text)
}

// programs are the files that the page shows, by name.
func programs(t *testing.T) map[string]string {
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)\n`([a-z/]+\\.go)`:\n\n```go\n(.*?)```\n").FindAllStringSubmatch(page(t), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// TestPage: the page shows the programs of this folder.
func TestPage(t *testing.T) {
	shown := programs(t)
	here, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	require.Len(t, shown, len(here))
	for _, f := range here {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Equal(t, string(text), shown[filepath.ToSlash(f)], f)
	}
}

// outputs are what commands of the page print.
var outputs = map[string]string{
	"go run ./ring":         `^0 -> 1 -> 2 -> 3, and back\n$`,
	"go run ./train":        `^y = 3\.00 x \+ 1\.00\n$`,
	"go run ./train -trace": `(?s)^y = 3\.00 x \+ 1\.00\nallreduce: \S+s\n  .*round.*\n  .*round.*\n$`,
}

// follower follows the page in an empty directory.
type follower struct {
	t             *testing.T
	dir, checkout string
	seen          map[string]bool
}

// TestFromNothing: a new module in an empty directory, with the programs as the page shows them,
// and the commands that it gives. The modules that these need must be to be had.
func TestFromNothing(t *testing.T) {
	if os.Getenv("EFACTOR_TUTORIAL") == "" {
		t.Skip("EFACTOR_TUTORIAL is not set: this test fetches modules")
	}
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)
	f := &follower{t, filepath.Join(t.TempDir(), "tutorial"), checkout, map[string]bool{}}
	require.NoError(t, os.Mkdir(f.dir, 0o700))
	for _, m := range regexp.MustCompile("(?s)```(go|sh)\n(.*?)```\n").FindAllStringSubmatch(page(t), -1) {
		if m[1] == "go" {
			f.write(m[2])
			continue
		}
		for line := range strings.Lines(m[2]) {
			command, _, _ := strings.Cut(line, "#")
			f.follow(strings.TrimSpace(command))
		}
	}
	for command := range outputs {
		require.True(t, f.seen[command], command)
	}
}

// write makes the file of a program.
func (f *follower) write(program string) {
	for name, text := range programs(f.t) {
		if text == program {
			at := filepath.Join(f.dir, name)
			require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o700))
			require.NoError(f.t, os.WriteFile(at, []byte(text), 0o600))
		}
	}
}

// follow does what a line says. This checkout and the directory stand for those of the first lines.
func (f *follower) follow(command string) {
	f.seen[command] = true
	switch {
	case strings.HasPrefix(command, "git clone"), strings.HasPrefix(command, "mkdir"), command == "go run ./hello ADDRESS":
	case command == "go run ./hello":
		f.hello()
	default:
		out := f.run(command)
		if want, ok := outputs[command]; ok {
			require.Regexp(f.t, want, out)
		}
	}
}

func (f *follower) run(command string) string {
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	args := strings.Fields(strings.ReplaceAll(command, "../efactor", f.checkout))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = f.dir
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	require.NoError(f.t, err, "%s: %s", command, &log)
	return string(out)
}

// hello has the client ask the server.
func (f *follower) hello() {
	f.run("go build -o hello.exe ./hello")
	server := exec.Command(filepath.Join(f.dir, "hello.exe"))
	out, err := server.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, server.Start())
	defer func() {
		require.NoError(f.t, server.Process.Kill())
		_ = server.Wait() // it was killed
	}()
	line := bufio.NewScanner(out)
	require.True(f.t, line.Scan())
	require.Equal(f.t, "hello, gopher\n", f.run("go run ./hello "+line.Text()))
}
