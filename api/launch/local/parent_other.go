//go:build !linux

package local

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
