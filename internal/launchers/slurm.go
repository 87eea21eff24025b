package launchers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// Slurm is a cluster.
type Slurm struct {
	Dir  string // of its files
	conf string
}

const slurmConf = `ClusterName=test%[6]d
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/%%n.pid
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n0 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[4]d CPUs=8 State=UNKNOWN
NodeName=n1 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[5]d CPUs=8 State=UNKNOWN
PartitionName=all Nodes=n[0-1] Default=YES MaxTime=INFINITE State=UP
`

// StartSlurm runs munged, slurmctld and two slurmd until the test ends.
func StartSlurm(t testing.TB) *Slurm {
	t.Helper()
	Need(t, "munged", "slurmctld", "slurmd", "srun", "sinfo", "sbatch")
	if os.Getuid() != 0 {
		testenv.Missing(t, "Slurm's daemons want to be root's")
	}
	dir, err := os.MkdirTemp("", "slurm") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &Slurm{Dir: dir, conf: filepath.Join(dir, "slurm.conf")}
	for _, sub := range []string{"state", "n0", "n1"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "munge.key"), []byte(strings.Repeat("test", 32)), 0o600))
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	text := fmt.Sprintf(slurmConf, dir, host, freeport.Get(t), freeport.Get(t), freeport.Get(t), os.Getpid())
	require.NoError(t, os.WriteFile(s.conf, []byte(text), 0o644))
	file := func(name string) string { return filepath.Join(dir, name) }
	s.daemon(t, "munged", "--foreground", "--force", "--key-file="+file("munge.key"), "--socket="+file("munge.sock"),
		"--pid-file="+file("munge.pid"), "--log-file="+file("munge.log"), "--seed-file="+file("munge.seed"))
	wait(t, "munged", func() bool {
		c, err := net.Dial("unix", file("munge.sock"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	s.daemon(t, "slurmctld", "-D", "-c")
	s.daemon(t, "slurmd", "-D", "-N", "n0")
	s.daemon(t, "slurmd", "-D", "-N", "n1")
	wait(t, "the nodes", func() bool {
		cmd := exec.CommandContext(t.Context(), "sinfo", "-h", "-t", "idle", "-o", "%D")
		cmd.Env = s.Env()
		out, err := cmd.Output()
		return err == nil && strings.TrimSpace(string(out)) == "2"
	})
	return s
}

// Env is CleanEnv for commands that are to find the cluster.
func (s *Slurm) Env(add ...string) []string { return CleanEnv(append(add, "SLURM_CONF="+s.conf)...) }

// daemon runs a program until the test ends.
func (s *Slurm) daemon(t testing.TB, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(s.Dir, fmt.Sprintf("%s.out.%d", name, len(args))))
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Env = s.Env()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		bound := clock.NewTimer(10 * time.Second)
		defer bound.Stop()
		select {
		case <-ended:
		case <-bound.C:
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s %v: %s", name, args, text)
		}
	})
}

// wait polls until ok, for programs that need a while to come up.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 50*time.Millisecond, "waiting for %s", what)
}
