package testenv

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake notes how a test was ended.
type fake struct {
	testing.TB
	ended string
}

func (f *fake) Helper()                           {}
func (f *fake) Skipf(format string, args ...any)  { f.end("skip: "+format, args...) }
func (f *fake) Fatalf(format string, args ...any) { f.end("fail: "+format, args...) }

// end notes the first end: a real test would go no further.
func (f *fake) end(format string, args ...any) {
	if f.ended == "" {
		f.ended = fmt.Sprintf(format, args...)
	}
}

func TestRule(t *testing.T) {
	for _, c := range []struct {
		variable, ci string
		all          bool
		missing      string
	}{
		{"", "", false, "skip: no gcc"},
		{"0", "", false, "skip: no gcc"},
		{"1", "", true, "skip: no gcc"},
		{"", "true", true, "fail: no gcc"},
		{"1", "true", true, "fail: no gcc"},
	} {
		t.Setenv(Variable, c.variable)
		t.Setenv("CI", c.ci)
		require.Equal(t, c.all, All(), c)
		require.Equal(t, testing.Short() || !c.all, Short(), c)
		var need, missing fake
		NeedAll(&need, "tshark")
		require.Equal(t, c.all, need.ended == "", c)
		if !c.all {
			require.Equal(t, "skip: it needs tshark: make test-all runs it (EFACTOR_TEST_ALL=1)", need.ended)
		}
		Missing(&missing, "no %s", "gcc")
		require.Equal(t, c.missing, missing.ended, c)
	}
}
