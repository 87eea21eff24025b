package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// asProgram in the environment makes a test binary the program that it tests.
const asProgram = "TESTENV_AS_PROGRAM"

// built is the folder of the program that was built, if one was.
var built string

// Main is TestMain of a package main whose tests start the program: the test binary can be it, since the
// package's main is part of it. It does not return.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	_ = os.Setenv(asProgram, "1") // for all processes that tests start
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// Program is the path of the program of the package main under test, which has Main. In the short form that is
// the test binary, which spares a build; else it is built as a user would build it.
func Program(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var program = sync.OnceValues(func() (path string, err error) {
	if Short() {
		return os.Executable()
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if built, err = os.MkdirTemp("", "program"); err != nil {
		return "", err
	}
	path = filepath.Join(built, filepath.Base(folder))
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})
