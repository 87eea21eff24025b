package launch

import (
	"os"
	"strconv"
)

// firstSpecialStep is the first of the numbers that Slurm gives to steps without a
// command of the user's: batch scripts, salloc's interactive step, ssh sessions.
const firstSpecialStep = 0xfffffff0

// slurmByHand reports whether this process was started by hand from a shell in the step
// that the variables describe, and not as a task of it. Then Slurm is ignored, or there
// is an error if the step has other tasks: it is unknown whether they will call Init.
func (e *environment) slurmByHand(launcher, sizeName string) (skip bool, err error) {
	if e.Launcher == launcher {
		return false, nil // the user has set the launcher
	}
	step := e.get("SLURM_STEP_ID")
	if n, err := strconv.ParseUint(step, 10, 32); err == nil && n >= firstSpecialStep {
		return true, nil
	}
	// srun --pty is the only way by which a task has a terminal. Its variables go on to
	// steps that are started from there, whose tasks have none.
	if e.get("SLURM_PTY_PORT") == "" || e.get("SLURM_TASK_PID") == strconv.Itoa(os.Getpid()) || !e.terminal() {
		return false, nil
	}
	size, err := e.needed(sizeName, 1, MaxSize)
	if err != nil || size == 1 {
		return err == nil, err
	}
	return false, bad("this process was started by hand in the interactive step %s of %d tasks (srun --pty): start it by srun, or set %s to %s, or to %s if all tasks come here",
		step, size, envLauncher, aloneName, launcher)
}

// onTerminal reports whether any of the standard streams is a character device, which
// Slurm's tasks have from /dev/null at most.
func onTerminal() bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		st, err := f.Stat()
		if err == nil && st.Mode()&os.ModeCharDevice != 0 && !os.SameFile(st, null) {
			return true
		}
	}
	return false
}
