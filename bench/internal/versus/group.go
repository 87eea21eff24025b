package versus

import (
	"os/exec"
	"syscall"
	"time"
)

// grace is how long a program has to end when its context has, or to let go of its output
// when it has ended.
const grace = 3 * time.Second

// Start starts a program as the leader of a process group, to which all belong that it
// starts, unless they leave it. If its context ends, the program is asked to end, so that a
// launcher can end its ranks.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel != nil { // it has a context
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	}
	cmd.WaitDelay = grace
	return cmd.Start()
}

// Wait waits for the end of a program that Start has started, and then ends what is left of
// its group: the ranks of a launcher that was killed, which otherwise would spin on.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is nothing left
	return err
}
