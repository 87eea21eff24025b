package launch

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/efactor/efactor/api/launch/internal/hostlist"
)

// findExplicit: the caller says it all.
func (e *environment) findExplicit() (*place, error) {
	switch {
	case e.cfg.Size == 0:
		return nil, nil
	case e.cfg.Size < 0 || e.cfg.Size > MaxSize:
		return nil, bad("%d ranks, 1 to %d", e.cfg.Size, MaxSize)
	case e.cfg.Rank < 0 || e.cfg.Rank >= e.cfg.Size:
		return nil, bad("rank %d of %d", e.cfg.Rank, e.cfg.Size)
	}
	p := &place{launcher: "explicit configuration", rank: e.cfg.Rank, size: e.cfg.Size}
	return p, e.meetAt(p, e.cfg.Rendezvous, "Config.Rendezvous (or "+envRendezvous+")")
}

// findOwn: the variables of this package.
func (e *environment) findOwn() (*place, error) {
	if e.get(envRank) == "" {
		return nil, nil
	}
	rank, size, err := e.rankOf(envRank, envSize)
	if err != nil {
		return nil, err
	}
	p := &place{launcher: "env: EFACTOR_ variables", rank: rank, size: size}
	if err := e.meetAt(p, e.cfg.Rendezvous, envRendezvous); err != nil {
		return nil, err
	}
	return p, nil
}

// meetAt makes p one that meets at addr; wants names the variable to set.
func (e *environment) meetAt(p *place, addr, wants string) error {
	if p.size == 1 {
		p.join = joinAlone
		return nil
	}
	if addr == "" {
		return bad("%s: %d ranks need a place to meet: set %s to host:port of rank 0", p.launcher, p.size, wants)
	}
	if err := checkRendezvous(addr); err != nil {
		return err
	}
	p.launcher += fmt.Sprintf(", rendezvous at %s", addr)
	p.join = func(ctx context.Context, e *environment, p *place) (carrier, error) {
		return joinRendezvous(ctx, e, p, addr)
	}
	return nil
}

func checkRendezvous(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("rendezvous %q: want host:port", addr)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return bad("rendezvous %q: port %q", addr, port)
	}
	if host == "" {
		return bad("rendezvous %q: want host:port, where all ranks find rank 0", addr)
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		return bad("rendezvous %q: %q is neither a host's name nor an IP address", addr, host)
	}
	return nil
}

// inherited is the listener that the starter of rank 0 has opened for it, if there
// is one.
func (e *environment) inherited() (net.Listener, error) {
	fd, ok, err := e.number(envRendezvousFD, 3, 1<<16)
	if err != nil || !ok {
		return nil, err
	}
	f, err := takeSocket(fd)
	if err != nil {
		return nil, bad("%s=%d: %w", envRendezvousFD, fd, err)
	}
	l, err := net.FileListener(f)
	_ = f.Close() // l has its own
	if err != nil {
		return nil, bad("%s=%d: %w", envRendezvousFD, fd, err)
	}
	_ = os.Unsetenv(envRendezvousFD) // the number may soon mean something else
	return l, nil
}

// findTorchrun: torchrun, or torch.distributed.run, started by any launcher.
func (e *environment) findTorchrun() (*place, error) {
	if e.get("TORCHELASTIC_RUN_ID") == "" || e.get("RANK") == "" {
		return nil, nil
	}
	return e.torchrun("torchrun")
}

var torchrunVars = []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}

// findLikeTorchrun: those that set the same variables, for instance Kubeflow's PyTorchJob.
// They are so plain that all must be there.
func (e *environment) findLikeTorchrun() (*place, error) {
	for _, name := range torchrunVars {
		if e.get(name) == "" {
			return nil, nil
		}
	}
	return e.torchrun("torchrun's variables")
}

func (e *environment) torchrun(name string) (*place, error) {
	rank, size, err := e.rankOf("RANK", "WORLD_SIZE")
	if err != nil {
		return nil, err
	}
	p := &place{launcher: name, rank: rank, size: size}
	if p.localRank, p.localSize, err = e.locals("LOCAL_RANK", "LOCAL_WORLD_SIZE"); err != nil {
		return nil, err
	}
	// The agents start all ranks anew after a failure. Each counts its own failures, so its ranks
	// alone have the same count; all agents agree on a port for each start, or keep theirs.
	if id := e.get("TORCHELASTIC_RUN_ID"); id != "" {
		p.job = "torchrun-" + clip(id) + "-" + clip(e.get("MASTER_PORT"))
		p.agent, p.start = clip(e.get("GROUP_RANK")), clip(e.get("TORCHELASTIC_RESTART_COUNT"))
		p.left = orphaned(os.Getppid)
	}
	addr := e.cfg.Rendezvous
	if addr == "" && size > 1 {
		if addr, err = e.torchrunRendezvous(); err != nil {
			return nil, err
		}
	}
	return p, e.meetAt(p, addr, envRendezvous)
}

// orphaned reports whether the process that has started this one has ended. An agent of torchrun
// ends its ranks before it lets a new start begin, unless it was killed.
func orphaned(parent func() int) func() error {
	agent := parent()
	return func() error {
		if parent() == agent {
			return nil
		}
		return fmt.Errorf("the agent of torchrun that has started this process (%d) has ended, so it belongs to a former start", agent)
	}
}

// torchrunRendezvous is the port after MASTER_PORT: at that one the agent has a store of
// its own.
func (e *environment) torchrunRendezvous() (string, error) {
	host := e.get("MASTER_ADDR")
	if host == "" {
		return "", bad("MASTER_ADDR is not set")
	}
	if ip, ok := strings.CutPrefix(host, "["); ok { // as URLs have IPv6 addresses
		host = strings.TrimSuffix(ip, "]")
	}
	port, err := e.needed("MASTER_PORT", 1, 1<<16-1)
	if err != nil {
		return "", err
	}
	if port++; port == 1<<16 {
		port -= 2
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// kubernetesPort is where index 0 of a Job waits unless EFACTOR_RENDEZVOUS says otherwise.
const kubernetesPort = 16383

// findKubernetes: an indexed Job, one rank in a pod. Kubernetes provides the index, but
// not the number of ranks, and not the name of the headless service.
func (e *environment) findKubernetes() (*place, error) {
	if e.get("JOB_COMPLETION_INDEX") == "" {
		return nil, nil
	}
	rank, size, err := e.rankOf("JOB_COMPLETION_INDEX", envSize)
	if err != nil {
		return nil, bad("kubernetes: an indexed Job does not tell its completions: %w", err)
	}
	p := &place{launcher: "kubernetes: indexed Job", rank: rank, size: size}
	addr := e.cfg.Rendezvous
	if addr != "" && !strings.Contains(addr, ":") {
		addr = net.JoinHostPort(addr, strconv.Itoa(kubernetesPort))
	}
	if addr == "" && e.get("JOB_NAME") != "" && e.get("SERVICE_NAME") != "" {
		addr = net.JoinHostPort(e.get("JOB_NAME")+"-0."+e.get("SERVICE_NAME"), strconv.Itoa(kubernetesPort))
	}
	return p, e.meetAt(p, addr, envRendezvous+" to JOB-0.SERVICE:PORT, the pod of index 0 in the headless service,")
}

// findOpenMPI: mpirun of Open MPI. Its own wire-up is PMIx, of which we only take what it
// says of ranks.
func (e *environment) findOpenMPI() (*place, error) {
	if e.get("OMPI_COMM_WORLD_RANK") == "" {
		return nil, nil
	}
	rank, size, err := e.rankOf("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
	if err != nil {
		return nil, err
	}
	p := &place{launcher: "openmpi", rank: rank, size: size}
	if p.localRank, p.localSize, err = e.locals("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"); err != nil {
		return nil, err
	}
	for _, name := range []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"} {
		if id := e.get(name); id != "" {
			p.job = "openmpi-" + clip(id)
			break
		}
	}
	addr := e.cfg.Rendezvous
	if addr == "" && p.localSize == p.size && p.job != "" { // all on this host
		addr = net.JoinHostPort("127.0.0.1", itoa(portOf(p.job)))
	}
	return p, e.meetAt(p, addr, envRendezvous+" (mpirun -x "+envRendezvous+"=HOST:PORT, with the host of rank 0)")
}

// clip bounds a part of a job's name.
func clip(s string) string { return s[:min(len(s), 64)] }

// findSlurm: srun without PMI. A batch script outside of srun has SLURM_PROCID and the
// number of tasks, too, but is not one of them; only a step has an id.
func (e *environment) findSlurm() (*place, error) {
	step := e.get("SLURM_STEP_ID")
	if step == "" || e.get("SLURM_PROCID") == "" {
		return nil, nil
	}
	if skip, err := e.slurmByHand("slurm", "SLURM_STEP_NUM_TASKS"); skip || err != nil {
		return nil, err
	}
	rank, size, err := e.rankOf("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
	if err != nil {
		return nil, err
	}
	id := e.get("SLURM_JOB_ID") + "." + step
	job := "slurm-" + clip(e.get("SLURM_CLUSTER_NAME")) + "-" + id // clusters may share a host, and all count from 1
	if n := e.get("SLURM_RESTART_COUNT"); n != "" {                // a task of a former start may live
		job += "-" + clip(n)
	}
	p := &place{launcher: "slurm: step " + id, rank: rank, size: size, job: job}
	addr := e.cfg.Rendezvous
	if addr == "" && size > 1 {
		if addr, err = e.slurmRendezvous(p.job); err != nil {
			return nil, err
		}
	}
	return p, e.meetAt(p, addr, envRendezvous)
}

// slurmRendezvous is a port of the step's first node, where Slurm puts task 0.
func (e *environment) slurmRendezvous(job string) (string, error) {
	list := e.get("SLURM_STEP_NODELIST")
	first, n, err := hostlist.First(list)
	if err != nil {
		return "", bad("SLURM_STEP_NODELIST: %w", err)
	}
	if n == 1 { // names of nodes need not be ones of hosts
		first = "127.0.0.1"
	}
	return net.JoinHostPort(first, strconv.Itoa(portOf(job))), nil
}

// The ports below those that Linux gives away by itself (ip_local_port_range).
const (
	firstPort = 16384
	numPorts  = 16384
)

// portOf is a port that most likely no other job has. Jobs that meet at one
// distinguish each other by their names, and the later one waits.
func portOf(job string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job)) // has no errors
	return firstPort + int(h.Sum32()%numPorts)
}

// slurmByHand reports whether this process was started by hand from a shell in the step
// that the variables describe, and not as a task of it. Then Slurm is ignored, or there
// is an error if the step has other tasks: it is unknown whether they will call Init.
func (e *environment) slurmByHand(launcher, sizeName string) (skip bool, err error) {
	if e.cfg.Launcher == launcher {
		return false, nil // the user has set the launcher
	}
	step := e.get("SLURM_STEP_ID")
	if specialStep(step) {
		return true, nil
	}
	// srun --pty is the only way by which a task has a terminal. Its variables go on to
	// steps that are started from there, whose tasks have none.
	if e.get("SLURM_PTY_PORT") == "" || e.get("SLURM_TASK_PID") == strconv.Itoa(os.Getpid()) || !e.cfg.terminal() {
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

// traces are variables that a launcher gives to each of its processes, and by which alone the
// others cannot be met: the launcher is one that is not spoken here, or other variables of its
// are not set. A process with one of them that took itself for alone would be one of several
// that all do.
var traces = []struct {
	name, size string // of the variables; a size of 1 is that of a process that is alone
	without    string // those that are missing: if they are there, another reason has ruled the launcher out
	why        string
}{
	{envRendezvous, envSize, envRank, envRank + " is not set"},
	{envRendezvousFD, envSize, envRank, envRank + " is not set"},
	{"TORCHELASTIC_RUN_ID", "WORLD_SIZE", "RANK", "RANK is not set"},
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK is not set"},
	{"PALS_RANKID", envPMISize, envPMIFD, "PALS has set no descriptor of PMI-1, " + envPMIFD},
	{"FLUX_TASK_RANK", "FLUX_JOB_SIZE", envPMIFD, "Flux has set no descriptor of PMI-1, " + envPMIFD},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "", "MVAPICH2's launcher has set no descriptor of PMI-1, " + envPMIFD},
	{"ALPS_APP_PE", "", "", "aprun does not say where to meet"},
	{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "", "jsrun does not say where to meet"},
	{envPMIRank, envPMISize, envPMIFD, envPMIFD + " is not set"},
	{envPMIPort, envPMISize, envPMIID, envPMIID + " is not set"},
	{envPMIID, envPMISize, envPMIPort, envPMIPort + " is not set"},
	{"PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "", "PMIx is not spoken here"},
	{"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_PROCID is not set"},
}

// findHalf is an error if there are traces of a launcher, but no way to the other ranks.
func (e *environment) findHalf() error {
	for _, t := range traces {
		s := e.get(t.name)
		if s == "" || t.without != "" && e.get(t.without) != "" || t.size != "" && e.get(t.size) == "1" || t.name == "SLURM_STEP_ID" && specialStep(s) {
			continue
		}
		return e.half(t.name, t.why)
	}
	// A batch script has SLURM_PROCID=0 and no step.
	if rank := e.get("SLURM_PROCID"); rank != "" && rank != "0" && e.get("SLURM_STEP_ID") == "" {
		return e.half("SLURM_PROCID", "SLURM_STEP_ID is not set")
	}
	return e.findHalfTorchrun()
}

// findHalfTorchrun looks at variables that are so plain that they may mean anything, unless a
// rank comes with another of them.
func (e *environment) findHalfTorchrun() error {
	var there, missing []string
	for _, name := range torchrunVars {
		if e.get(name) == "" {
			missing = append(missing, name)
		} else {
			there = append(there, name)
		}
	}
	switch {
	case len(there) == 0 || e.get("WORLD_SIZE") == "1":
	case len(there) > 1 && e.get("RANK") != "":
		return e.half(strings.Join(there, ", "), "not set: "+strings.Join(missing, ", "))
	default:
		e.cfg.Logger.Warn("launch: this process is alone, although others of torchrun's variables are set",
			"set", strings.Join(there, ", "), "not set", strings.Join(missing, ", "))
	}
	return nil
}

func (e *environment) half(names, why string) error {
	return bad("this process seems to be one of several (%s), but %s: start each with %s, %s and %s, or with %s=%s",
		names, why, envRank, envSize, envRendezvous, envLauncher, aloneName)
}

// specialStep reports whether a step of Slurm's has no command of the user's: batch scripts,
// salloc's interactive step, ssh sessions.
func specialStep(id string) bool {
	const first = 0xfffffff0
	n, err := strconv.ParseUint(id, 10, 32)
	return err == nil && n >= first
}
