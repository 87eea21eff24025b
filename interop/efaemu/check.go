//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/interop/efaemu/trap"
)

// check prints what the kernel has.
func check() int {
	status := 0
	for _, f := range trap.Check(context.Background()) {
		if f.Err != nil {
			fmt.Printf("no   %s: %v\n", f.Name, f.Err)
			status = 1
			continue
		}
		fmt.Printf("ok   %s\n", f.Name)
	}
	return status
}

// play plays a role of package trap, if this process was started for one.
func play() { trap.Main() }
