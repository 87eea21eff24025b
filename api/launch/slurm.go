package launch

import (
	"hash/fnv"
	"net"
	"strconv"

	"github.com/efactor/efactor/api/launch/internal/hostlist"
)

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
	p := &place{launcher: "slurm: step " + id, rank: rank, size: size, job: job}
	addr := e.Rendezvous
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
