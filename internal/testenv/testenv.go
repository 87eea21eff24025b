package testenv

import (
	"os"
	"testing"
	"time"
)

// Variable is the environment variable that asks for all tests if it is 1.
const Variable = "EFACTOR_TEST_ALL"

// Hang is after how long a test that still waits for something hangs. Machines are busy: nothing that
// takes milliseconds on a quiet one may be expected within less.
const Hang = 2 * time.Minute

// All reports whether all tests are to run.
func All() bool { return os.Getenv(Variable) == "1" || complete() }

// Short reports whether a short form of the tests is sufficient: that is the default, and what -short means.
func Short() bool { return testing.Short() || !All() }

// complete reports whether nothing may be missing on this machine.
func complete() bool { return os.Getenv("CI") == "true" }

// NeedAll skips a test that belongs to the whole alone, since it needs something: another program's name,
// a network, much time.
func NeedAll(t testing.TB, something string) {
	t.Helper()
	if !All() {
		t.Skipf("it needs %s: make test-all runs it (%s=1)", something, Variable)
	}
}

// Long skips a test that the short form leaves out as a whole, since it is long.
func Long(t testing.TB, why string) {
	t.Helper()
	if Short() {
		t.Skipf("it is long (%s): make test-all runs it (%s=1)", why, Variable)
	}
}

// Missing ends a test that can't run because the machine lacks something: it skips the test, but fails
// where nothing may be missing.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if complete() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
