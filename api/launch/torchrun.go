package launch

import (
	"net"
	"strconv"
)

// findTorchrun: torchrun, or torch.distributed.run, started by any launcher.
func (e *environment) findTorchrun() (*place, error) {
	if e.get("TORCHELASTIC_RUN_ID") == "" || e.get("RANK") == "" {
		return nil, nil
	}
	return e.torchrun("torchrun")
}

// findLikeTorchrun: those that set the same variables, for instance Kubeflow's PyTorchJob.
// They are so plain that all must be there.
func (e *environment) findLikeTorchrun() (*place, error) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} {
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
	if id := e.get("TORCHELASTIC_RUN_ID"); id != "" { // the agent starts anew after a failure
		p.job = "torchrun-" + clip(id) + "-" + clip(e.get("TORCHELASTIC_RESTART_COUNT"))
	}
	addr := e.Rendezvous
	if addr == "" && size > 1 {
		if addr, err = e.torchrunRendezvous(); err != nil {
			return nil, err
		}
	}
	return p, e.meetAt(p, addr, envRendezvous)
}

// torchrunRendezvous is the port after MASTER_PORT: at that one the agent has a store of
// its own.
func (e *environment) torchrunRendezvous() (string, error) {
	host := e.get("MASTER_ADDR")
	if host == "" {
		return "", bad("MASTER_ADDR is not set")
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
