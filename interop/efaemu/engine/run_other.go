//go:build !linux

package engine

import "runtime"

// idler yields: other systems have no programs that the engine could serve.
type idler struct{}

func (*idler) begin() func() { return func() {} }
func (*idler) reset()        {}
func (*idler) sleep(bool)    { runtime.Gosched() }
