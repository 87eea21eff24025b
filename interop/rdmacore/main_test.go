//go:build linux

package rdmacore

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// built is the directory of the programs built for the tests.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	if script := os.Getenv(playVar); script != "" {
		if err := play(script); err != nil {
			fmt.Println("not ok", err)
			os.Exit(1)
		}
		fmt.Println("ok")
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "rdmacore")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
