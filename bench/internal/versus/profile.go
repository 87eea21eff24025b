package versus

import (
	"os"
	"runtime/pprof"
)

// Profile writes a CPU profile to a file until stop is called.
func Profile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		_ = f.Close() // the first error says what is wrong
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // pprof does not say either whether all was written
	}, nil
}
