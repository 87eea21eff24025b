//go:build unix

package agent

import (
	"os/exec"
	"syscall"
)

// group has the program lead a process group, so that all of it can be ended.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
