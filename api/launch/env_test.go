package launch

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

// with is an environment of lines NAME=value.
func with(vars string) func(string) string {
	m := map[string]string{}
	for _, v := range strings.Fields(vars) {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

const (
	ownVars   = "EFACTOR_RANK=1 EFACTOR_SIZE=3 EFACTOR_RENDEZVOUS=h:1 "
	torchVars = "RANK=2 WORLD_SIZE=4 MASTER_ADDR=m MASTER_PORT=29500 "
	agentVars = "TORCHELASTIC_RUN_ID=run TORCHELASTIC_RESTART_COUNT=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "
	pmiVars   = "PMI_FD=7 PMI_RANK=1 PMI_SIZE=2 "
	hydraVars = pmiVars + "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 "
	ompiVars  = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "
	slurmVars = "SLURM_JOB_ID=42 SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[04-05] "
	ptyVars   = slurmVars + "SLURM_TASK_PID=1 SLURM_PTY_PORT=4711 " // of a shell
	k8sVars   = "JOB_COMPLETION_INDEX=1 EFACTOR_SIZE=2 "
)

// TestFind: the launchers found, their precedence, and errors.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		vars, launcher string // "": an error that contains
		rank, size     int
		err            string
	}{
		{"", aloneText, 0, 1, ""},
		{"RANK=1", aloneText, 0, 1, ""}, // too plain without the rest, see TestAloneTells
		{"RANK=0 WORLD_SIZE=1", aloneText, 0, 1, ""},
		{"PMI_RANK=0 PMI_SIZE=1", aloneText, 0, 1, ""},
		{"EFACTOR_LAUNCHER=alone PMI_RANK=1 PMI_SIZE=2 EFACTOR_RENDEZVOUS=h:1 RANK=1 MASTER_ADDR=h", aloneText, 0, 1, ""},
		{strings.ReplaceAll(torchVars, "ADDR=m", "ADDR=[::1]"), "rendezvous at [::1]:29501", 2, 4, ""},
		{strings.ReplaceAll(torchVars, "ADDR=m", "ADDR=fe80::1%eth0"), "rendezvous at [fe80::1%eth0]:29501", 2, 4, ""},
		{strings.ReplaceAll(slurmVars, "n[04-05]", "n4,n[4]"), "slurm: step 42.3, rendezvous at 127.0.0.1:", 1, 2, ""}, // parts of a heterogeneous step
		{"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1", aloneText, 0, 1, ""},
		{ownVars, "env: EFACTOR_ variables, rendezvous at h:1", 1, 3, ""},
		{ownVars + torchVars + agentVars + hydraVars + slurmVars, "env: EFACTOR_", 1, 3, ""},
		{torchVars + agentVars + hydraVars + slurmVars, "torchrun, rendezvous at m:29501", 2, 4, ""},
		{torchVars + hydraVars + slurmVars, "hydra: PMI on descriptor 7", 1, 2, ""},
		{torchVars + k8sVars[:22], "torchrun's variables, rendezvous at m:29501", 2, 4, ""},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=65535", "rendezvous at m:65534", 0, 2, ""},
		{slurmVars + pmiVars + "PMI_JOBID=42.3", "slurm: PMI on descriptor 7", 1, 2, ""},
		{ompiVars + slurmVars + "EFACTOR_RENDEZVOUS=h:1", "openmpi, rendezvous at h:1", 1, 2, ""},
		{slurmVars, "slurm: step 42.3, rendezvous at n04:", 1, 2, ""},
		{strings.ReplaceAll(slurmVars, "n[04-05]", "n04"), "slurm: step 42.3, rendezvous at 127.0.0.1:", 1, 2, ""},
		{slurmVars + "EFACTOR_RENDEZVOUS=h:1", "slurm: step 42.3, rendezvous at h:1", 1, 2, ""},
		{k8sVars + "EFACTOR_RENDEZVOUS=job-0.svc", "kubernetes: indexed Job, rendezvous at job-0.svc:16383", 1, 2, ""},
		{k8sVars + "EFACTOR_RENDEZVOUS=job-0.svc:99", "rendezvous at job-0.svc:99", 1, 2, ""},
		{k8sVars + "JOB_NAME=job SERVICE_NAME=svc", "rendezvous at job-0.svc:16383", 1, 2, ""},
		{"PMI_PORT=h:12 PMI_ID=1", "PMI at h:12", 0, 0, ""},
		{"EFACTOR_LAUNCHER=slurm " + ownVars[:14] + slurmVars, "slurm: step", 1, 2, ""},
		{"EFACTOR_LAUNCHER=torchrun " + torchVars + hydraVars, "torchrun's variables", 2, 4, ""},
		{"EFACTOR_LAUNCHER=alone " + hydraVars, aloneText, 0, 1, ""},
		{"EFACTOR_LAUNCHER=alone EFACTOR_LOCAL_SIZE=3 EFACTOR_LOCAL_RANK=2 " + ownVars, aloneText, 0, 1, ""}, // in a child of a rank
		{slurmVars + "SLURM_STEP_ID=4294967290", aloneText, 0, 1, ""},                                        // salloc's interactive step
		{slurmVars + pmiVars + "PMI_JOBID=42.3 SLURM_STEP_ID=4294967290", aloneText, 0, 1, ""},
		{slurmVars + hydraVars + "SLURM_STEP_ID=4294967290", "hydra", 1, 2, ""}, // mpiexec in there
		{ptyVars + "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", aloneText, 0, 1, ""},
		{ptyVars + "EFACTOR_LAUNCHER=slurm", "slurm: step", 1, 2, ""},
		{ptyVars + "SLURM_TASK_PID=" + itoa(os.Getpid()), "slurm: step", 1, 2, ""},
		{ptyVars + hydraVars, "hydra", 1, 2, ""},
		{ptyVars, "", 0, 0, "by hand in the interactive step 3 of 2 tasks"},
		{ptyVars + pmiVars + "PMI_JOBID=42.3", "", 0, 0, "by hand"},

		{"EFACTOR_LAUNCHER=slurm", "", 0, 0, `launcher "slurm": there is no trace of it`},
		{"EFACTOR_LAUNCHER=nonsense", "", 0, 0, "those known: explicit, env, torchrun, pmi"},
		{"EFACTOR_RANK=1", "", 0, 0, "EFACTOR_SIZE is not set"},
		{"EFACTOR_RANK=1 EFACTOR_SIZE=2", "", 0, 0, "set EFACTOR_RENDEZVOUS"},
		{"EFACTOR_RANK=2 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=h:1", "", 0, 0, "a number from 0 to 1"},
		{"EFACTOR_RANK=-1 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=h:1", "", 0, 0, "EFACTOR_RANK"},
		{"EFACTOR_RANK=0 EFACTOR_SIZE=99999999 EFACTOR_RENDEZVOUS=h:1", "", 0, 0, "EFACTOR_SIZE"},
		{"EFACTOR_RANK=0 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=h", "", 0, 0, "want host:port"},
		{"EFACTOR_RANK=0 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=:1", "", 0, 0, "want host:port"},
		{"EFACTOR_RANK=0 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=h:0", "", 0, 0, "port"},
		{"EFACTOR_SIZE=2", "", 0, 0, "EFACTOR_SIZE=2"},
		{"EFACTOR_RENDEZVOUS=h:1", "", 0, 0, "EFACTOR_RANK is not set"},
		{"EFACTOR_LOCAL_RANK=1", "", 0, 0, "EFACTOR_LOCAL_RANK is set, EFACTOR_LOCAL_SIZE is not"},
		{"RANK=1 WORLD_SIZE=2", "", 0, 0, "not set: MASTER_ADDR, MASTER_PORT"},
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h", "", 0, 0, "not set: MASTER_PORT"},
		{"RANK=1 MASTER_ADDR=h MASTER_PORT=1", "", 0, 0, "not set: WORLD_SIZE"},
		{"TORCHELASTIC_RUN_ID=x WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "", 0, 0, "(TORCHELASTIC_RUN_ID), but RANK is not set"},
		{strings.ReplaceAll(torchVars, "ADDR=m", "ADDR=m:1"), "", 0, 0, `"m:1" is neither a host's name`},
		{"PMI_RANK=1 PMI_SIZE=2", "", 0, 0, "PMI_FD is not set"},
		{"PMI_RANK=1", "", 0, 0, "PMI_FD is not set"},
		{"PMI_PORT=h:1", "", 0, 0, "PMI_ID is not set"},
		{"PMI_ID=1", "", 0, 0, "PMI_PORT is not set"},
		{"PMIX_RANK=1 PMIX_NAMESPACE=x", "", 0, 0, "PMIX_RANK"},
		{"PALS_RANKID=1 PMI_RANK=1 PMI_SIZE=2", "", 0, 0, "PALS_RANKID"},
		{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2", "", 0, 0, "MV2_COMM_WORLD_RANK"},
		{"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2", "", 0, 0, "FLUX_TASK_RANK"},
		{"OMPI_COMM_WORLD_SIZE=2", "", 0, 0, "OMPI_COMM_WORLD_RANK is not set"},
		{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=4", "", 0, 0, "SLURM_STEP_ID is not set"},
		{"SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_JOB_ID=4", "", 0, 0, "SLURM_PROCID is not set"},
		{hydraVars + "EFACTOR_SIZE=3", "", 0, 0, "EFACTOR_SIZE=3"},
		{"PMI_FD=x PMI_RANK=1 PMI_SIZE=2", "", 0, 0, "PMI_FD"},
		{"PMI_FD=3", "", 0, 0, "PMI_SIZE is not set"},
		{"PMI_PORT=h PMI_ID=1", "", 0, 0, "PMI_PORT"},
		{"PMI_PORT=h:1 PMI_ID=x", "", 0, 0, "PMI_ID"},
		{ompiVars, "", 0, 0, "mpirun -x EFACTOR_RENDEZVOUS"},
		{strings.ReplaceAll(slurmVars, "n[04-05]", "n["), "", 0, 0, "SLURM_STEP_NODELIST"},
		{strings.ReplaceAll(torchVars, "29500", "x") + agentVars, "", 0, 0, "MASTER_PORT"},
		{"JOB_COMPLETION_INDEX=0", "", 0, 0, "does not tell its completions"},
		{k8sVars, "", 0, 0, "JOB-0.SERVICE:PORT"},
		{"EFACTOR_INSECURE=yes", "", 0, 0, "EFACTOR_INSECURE"},
		{"EFACTOR_TIMEOUT=5", "", 0, 0, "EFACTOR_TIMEOUT"},
		{"EFACTOR_TIMEOUT=-5s", "", 0, 0, "timeout"},
		{"EFACTOR_ADDR=host", "", 0, 0, "EFACTOR_ADDR"},
		{"EFACTOR_JOB_SECRET=a EFACTOR_JOB_SECRET_FILE=b", "", 0, 0, "both"},
		{"EFACTOR_JOB_SECRET_FILE=/nonexistent", "", 0, 0, "EFACTOR_JOB_SECRET_FILE"},
		{"EFACTOR_LOCAL_SIZE=2", "", 0, 0, "EFACTOR_LOCAL_RANK is not set"},
		{ownVars + "EFACTOR_LOCAL_SIZE=4 EFACTOR_LOCAL_RANK=0", "", 0, 0, "4 ranks on this host"},
		{"EFACTOR_LOCAL_SIZE=2 EFACTOR_LOCAL_RANK=2", "", 0, 0, "EFACTOR_LOCAL_RANK"},
	} {
		e, err := Config{getenv: with(c.vars), terminal: func() bool { return true }}.resolve()
		var p *place
		if err == nil {
			p, err = e.find()
		}
		if c.err != "" {
			assert.ErrorIs(t, err, ErrConfig, c.vars)
			assert.ErrorContains(t, err, c.err, c.vars)
			continue
		}
		if assert.NoError(t, err, c.vars) {
			assert.Contains(t, p.launcher, c.launcher, c.vars)
			assert.Equal(t, []int{c.rank, c.size}, []int{p.rank, p.size}, c.vars)
		}
	}
}

// TestAloneTells: plain variables that need not be a launcher's leave a warning that names them.
func TestAloneTells(t *testing.T) {
	for vars, want := range map[string]string{
		"": "", "RANK=0 WORLD_SIZE=1": "", "EFACTOR_LAUNCHER=alone RANK=1": "",
		"RANK=1":                     `set=RANK "not set"="WORLD_SIZE, MASTER_ADDR, MASTER_PORT"`,
		"WORLD_SIZE=2 MASTER_ADDR=h": `set="WORLD_SIZE, MASTER_ADDR"`,
	} {
		var out bytes.Buffer
		e, err := Config{getenv: with(vars), Logger: slog.New(slog.NewTextHandler(&out, nil))}.resolve()
		require.NoError(t, err)
		_, err = e.find()
		require.NoError(t, err)
		assert.Contains(t, out.String(), want, vars)
		assert.Equal(t, want != "", strings.Contains(out.String(), "level=WARN"), vars)
	}
}

// jobOf is the name of the job that an environment belongs to.
func jobOf(t *testing.T, vars string) string {
	e, err := Config{getenv: with(vars)}.resolve()
	require.NoError(t, err)
	_, err = e.find()
	require.NoError(t, err)
	return e.cfg.Job
}

// TestStarts: agents of torchrun that count other failures are in one start; a task that Slurm
// has left over from a former one is not.
func TestStarts(t *testing.T) {
	count := func(n string) string { return torchVars + strings.ReplaceAll(agentVars, "COUNT=2", "COUNT="+n) }
	assert.Equal(t, jobOf(t, count("0")), jobOf(t, count("1")))
	assert.NotEqual(t, jobOf(t, count("0")), jobOf(t, strings.ReplaceAll(count("0"), "=29500", "=29600")+"EFACTOR_RENDEZVOUS=m:1"))
	assert.NotEqual(t, jobOf(t, slurmVars), jobOf(t, slurmVars+"SLURM_RESTART_COUNT=1"))
}

// TestOrphan: a rank that waits for rank 0 gives up when its agent of torchrun has ended.
func TestOrphan(t *testing.T) {
	parents := []int{7, 7, 7, 1}
	left := orphaned(func() int {
		p := parents[0]
		parents = parents[1:]
		return p
	})
	p := &place{rank: 1, size: 2, left: left}
	e, err := Config{getenv: with(""), Logger: slog.New(slog.DiscardHandler)}.resolve()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	_, err = joinRendezvous(ctx, e, p, net.JoinHostPort("127.0.0.1", itoa(freeport.Get(t))))
	require.ErrorContains(t, err, "the agent of torchrun that has started this process (7) has ended")
	require.Empty(t, parents, "two attempts before")
}

// TestFormerStart: ranks of one agent have been started together.
func TestFormerStart(t *testing.T) {
	at := func(agent, start string) greeting { return greeting{Agent: agent, Start: start} }
	for _, well := range [][]greeting{
		{{}, {}}, {at("0", "3"), at("0", "3"), at("1", "0")}, {at("", "1"), at("", "2")}, {at("0", ""), at("0", "")},
	} {
		assert.NoError(t, formerStart(well))
	}
	var f *board.Failure
	require.ErrorAs(t, formerStart([]greeting{at("0", "1"), at("1", "9"), at("1", "10"), at("1", "10")}), &f)
	assert.Equal(t, []any{1, board.Mistake}, []any{f.Rank, f.Kind})
}

// TestSlurmClusters: steps of two clusters that share a host are not one job.
func TestSlurmClusters(t *testing.T) {
	names := make(map[string]bool)
	for _, cluster := range []string{"", "SLURM_CLUSTER_NAME=a", "SLURM_CLUSTER_NAME=b"} {
		e, err := Config{getenv: with(slurmVars + cluster)}.resolve()
		require.NoError(t, err)
		_, err = e.find()
		require.NoError(t, err)
		names[e.cfg.Job] = true
	}
	assert.Len(t, names, 3)
	assert.Contains(t, names, "slurm-a-42.3")
}

// TestConfigFirst: the caller's settings take precedence over the environment.
func TestConfigFirst(t *testing.T) {
	cfg := Config{
		Rank: 1, Size: 2, Rendezvous: "a:1", Timeout: time.Second, Secret: []byte("mine"), LocalRank: 1, LocalSize: 2,
		getenv: with(ownVars + "EFACTOR_TIMEOUT=9s EFACTOR_JOB_SECRET=theirs EFACTOR_LOCAL_RANK=0 EFACTOR_LOCAL_SIZE=5 EFACTOR_ADDR=10.0.0.1"),
	}
	e, err := cfg.resolve()
	require.NoError(t, err)
	p, err := e.find()
	require.NoError(t, err)
	assert.Equal(t, "explicit configuration, rendezvous at a:1", p.launcher)
	assert.Equal(t, []int{1, 2, 1, 2}, []int{p.rank, p.size, p.localRank, p.localSize})
	assert.Equal(t, "mine", string(e.cfg.Secret))
	assert.Equal(t, time.Second, e.cfg.Timeout)
	assert.Equal(t, netip.MustParseAddr("10.0.0.1"), e.cfg.Addr)
	for _, bad := range []Config{{Size: -1}, {Size: MaxSize + 1}, {Size: 2, Rank: 2}, {Size: 2, Rank: -1}, {Size: 2}, {Timeout: -1}} {
		bad.getenv = with("")
		e, err := bad.resolve()
		if err == nil {
			_, err = e.find()
		}
		assert.ErrorIs(t, err, ErrConfig, "%+v", bad)
	}
}

func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	e, err := Config{getenv: with("EFACTOR_JOB_SECRET_FILE=" + write("good", "a secret \r\n"))}.resolve()
	require.NoError(t, err)
	assert.Equal(t, "a secret ", string(e.cfg.Secret))
	for _, path := range []string{write("empty", "\n"), write("huge", strings.Repeat("a", maxSecretFile+1)), dir} {
		_, err := Config{getenv: with("EFACTOR_JOB_SECRET_FILE=" + path)}.resolve()
		assert.ErrorIs(t, err, ErrConfig, path)
	}
}

func TestFlags(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("from a file\n"), 0o600))
	var cfg Config
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	cfg.AddFlags(fs)
	require.NoError(t, fs.Parse(strings.Fields("-launch.rank=1 -launch.size 3 -launch.rendezvous h:1 -launch.insecure -launch.timeout 7s "+
		"-launch.device tcp -launch.addr 10.0.0.1 -launch.job j -launch.launcher explicit -launch.secret-file "+secret)))
	assert.Equal(t, []any{1, 3, "h:1", true, 7 * time.Second, "tcp", "10.0.0.1", "j", "explicit", "from a file"},
		[]any{cfg.Rank, cfg.Size, cfg.Rendezvous, cfg.Insecure, cfg.Timeout, cfg.Fabric.DeviceName, cfg.Addr.String(), cfg.Job, cfg.Launcher, string(cfg.Secret)})
	assert.Error(t, fs.Parse([]string{"-launch.addr", "host"}))
}

// TestStaleDescriptors: a variable with a descriptor that is no socket, or was not
// inherited, is an error, and the descriptor stays open.
func TestStaleDescriptors(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	var ours int
	require.NoError(t, raw.Control(func(fd uintptr) { ours = int(fd) }))
	for _, vars := range []string{
		"PMI_RANK=0 PMI_SIZE=1 PMI_FD=" + itoa(int(f.Fd())), "PMI_RANK=0 PMI_SIZE=1 PMI_FD=999",
		"EFACTOR_RANK=0 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=127.0.0.1:1 EFACTOR_RENDEZVOUS_FD=" + itoa(int(f.Fd())),
		"PMI_RANK=0 PMI_SIZE=1 PMI_FD=" + itoa(ours),
		"EFACTOR_RANK=0 EFACTOR_SIZE=2 EFACTOR_RENDEZVOUS=127.0.0.1:1 EFACTOR_RENDEZVOUS_FD=" + itoa(ours),
	} {
		_, err = Join(t.Context(), Config{getenv: with(vars)})
		assert.ErrorIs(t, err, ErrConfig, vars)
	}
	_, err = f.Stat()
	require.NoError(t, err)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// here is a carrier that knows its address.
type here struct {
	alone
	addr string
}

func (h here) Local() netip.Addr {
	a, _ := netip.ParseAddr(h.addr) // zero if there is none
	return a
}

// TestDevice: the address and the protection of the device tcp.
func TestDevice(t *testing.T) {
	for _, c := range []struct {
		vars, local string
		hosts       int
		addr        string
	}{
		{"", "", 1, "invalid IP"},
		{"", "127.0.0.1", 1, "127.0.0.1"},
		{"", "127.0.1.1", 2, "invalid IP"}, // the host's name for itself
		{"", "10.0.0.1", 2, "10.0.0.1"},
		{"", "10.0.0.1", 1, "10.0.0.1"},
		{"", "fe80::1", 2, "invalid IP"},
		{"EFACTOR_ADDR=10.0.0.9", "10.0.0.1", 2, "10.0.0.9"},
	} {
		e, err := Config{getenv: with(c.vars), Logger: slog.New(slog.DiscardHandler)}.resolve()
		require.NoError(t, err)
		e.device(&Job{at: here{addr: c.local}, hosts: c.hosts})
		assert.Equal(t, c.addr, e.cfg.Fabric.TCP.Addr.String(), "%+v", c)
		assert.Equal(t, "auto", e.cfg.Fabric.DeviceName)
	}
	e, err := Config{getenv: with("EFACTOR_JOB_SECRET=s EFACTOR_INSECURE=1 EFACTOR_DEVICE=tcp")}.resolve()
	require.NoError(t, err)
	e.device(&Job{at: alone{}, hosts: 2, LocalRank: 1})
	assert.Equal(t, []any{"s", true, "tcp"}, []any{string(e.cfg.Fabric.TCP.Secret), e.cfg.Fabric.TCP.Insecure, e.cfg.Fabric.DeviceName})
	assert.Empty(t, e.hint(&Job{hosts: 2}))
	none, err := Config{getenv: with("")}.resolve()
	require.NoError(t, err)
	assert.Contains(t, none.hint(&Job{hosts: 2}), "EFACTOR_JOB_SECRET")
	assert.Empty(t, none.hint(&Job{hosts: 1}))
}

// TestWarnings: what derives from a Logger lets nothing below a warning through either.
func TestWarnings(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(warnings{slog.NewTextHandler(&b, nil)})
	for _, l := range []*slog.Logger{log, log.With("a", 1), log.WithGroup("g")} {
		l.Info("no")
		require.Empty(t, b.String())
		l.Warn("yes")
		require.Contains(t, b.String(), "msg=yes")
		b.Reset()
	}
}
