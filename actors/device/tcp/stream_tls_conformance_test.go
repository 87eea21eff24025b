//go:build linux

package tcp

import (
	"runtime"
	"testing"

	"github.com/efactor/efactor/internal/devicetest"
)

// TestConformanceTLS: the whole contract again, over streams of a job secret.
func TestConformanceTLS(t *testing.T) {
	creds := jobCreds(t, tlsSecret)
	devicetest.Run(t, func(tb testing.TB, devices int) *devicetest.Fabric {
		f := factoryOf(func() Config { return Config{Credentials: creds} })(tb, devices)
		f.Allocates = true
		serve := f.Progress
		f.Progress = func() {
			serve()
			runtime.Gosched() // the streams' goroutines have as many processors as this case leaves
		}
		return f
	})
}
