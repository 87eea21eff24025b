package launch

import "net"

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
	addr := e.Rendezvous
	if addr == "" && p.localSize == p.size && p.job != "" { // all on this host
		addr = net.JoinHostPort("127.0.0.1", itoa(portOf(p.job)))
	}
	return p, e.meetAt(p, addr, envRendezvous+" (mpirun -x "+envRendezvous+"=HOST:PORT, with the host of rank 0)")
}

// clip bounds a part of a job's name.
func clip(s string) string { return s[:min(len(s), 64)] }
