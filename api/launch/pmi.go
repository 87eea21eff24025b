package launch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/efactor/efactor/api/launch/internal/pmi"
)

// The variables of PMI, which launchers of MPI set.
const (
	envPMI      = "EFACTOR_PMI" // of ours: the version to ask for
	envPMIFD    = "PMI_FD"
	envPMIPort  = "PMI_PORT"
	envPMIID    = "PMI_ID"
	envPMIRank  = "PMI_RANK"
	envPMISize  = "PMI_SIZE"
	envPMIJobID = "PMI_JOBID"
)

// pmiTaken: the descriptor was used, and its number may mean something else by now. The
// variable stays, so that a second Init does not take this process for one that is alone.
var pmiTaken atomic.Bool

// findPMI: a descriptor to the launcher that the process inherits, or a port of its.
func findPMI(e *environment) (*place, error) {
	switch {
	case e.get(envPMIFD) != "":
		return e.findPMIFD()
	case e.get(envPMIPort) != "" && e.get(envPMIID) != "":
		return e.findPMIPort()
	}
	return nil, nil
}

func (e *environment) findPMIFD() (*place, error) {
	fd, err := e.needed(envPMIFD, 0, 1<<16)
	if err != nil {
		return nil, err
	}
	p := &place{launcher: fmt.Sprintf("%s: PMI on descriptor %d", e.pmiName(), fd), stays: true}
	if p.rank, p.size, err = e.rankOf(envPMIRank, envPMISize); err != nil {
		return nil, err
	}
	if p.localRank, p.localSize, err = e.locals("MPI_LOCALRANKID", "MPI_LOCALNRANKS"); err != nil {
		return nil, err
	}
	p.join = func(ctx context.Context, e *environment, p *place) (carrier, error) {
		if pmiTaken.Swap(true) {
			return nil, bad("%s=%d: this process has met the others over it before, and PMI knows no second time", envPMIFD, fd)
		}
		f, err := takeSocket(fd)
		if err != nil {
			pmiTaken.Store(false)
			return nil, bad("%s=%d: %w; was the program started by way of another that closes descriptors?", envPMIFD, fd, err)
		}
		conn, err := net.FileConn(f)
		_ = f.Close() // conn has its own
		if err != nil {
			return nil, bad("%s=%d: %w", envPMIFD, fd, err)
		}
		return e.openPMI(ctx, p, conn, fmt.Sprintf("descriptor %d", fd))
	}
	return p, nil
}

func (e *environment) findPMIPort() (*place, error) {
	addr := e.get(envPMIPort)
	if err := checkRendezvous(addr); err != nil {
		return nil, bad("%s: %w", envPMIPort, err)
	}
	if _, err := e.needed(envPMIID, 0, MaxSize-1); err != nil {
		return nil, err
	}
	p := &place{launcher: e.pmiName() + ": PMI at " + addr, stays: true}
	var err error
	if p.localRank, p.localSize, err = e.locals("MPI_LOCALRANKID", "MPI_LOCALNRANKS"); err != nil {
		return nil, err
	}
	p.join = func(ctx context.Context, e *environment, p *place) (carrier, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return e.openPMI(ctx, p, conn, addr)
	}
	return p, nil
}

// openPMI begins to speak PMI, and learns which.
func (e *environment) openPMI(ctx context.Context, p *place, conn net.Conn, where string) (carrier, error) {
	cfg := pmi.Config{Conn: conn, Version: 1, Rank: p.rank, Size: p.size, ID: e.get(envPMIID), JobID: e.get(envPMIJobID)}
	if e.pmiName() == "slurm" || e.get(envPMI) == "2" {
		cfg.Version = 2
	}
	k, err := pmi.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if k.Size > MaxSize {
		_ = k.Close() // the first error says what is wrong
		return nil, bad("%d ranks, at most %d", k.Size, MaxSize)
	}
	p.rank, p.size = k.Rank, k.Size
	p.launcher = e.pmiName() + ": PMI-" + strconv.Itoa(k.Version) + " on " + where
	return k, nil
}

// pmiName guesses who speaks PMI. srun says the job's id, hydra's mpiexec does not.
func (e *environment) pmiName() string {
	switch {
	case e.get("SLURM_STEP_ID") != "" && e.get(envPMIJobID) != "" && e.get("MPI_LOCALNRANKS") == "":
		return "slurm"
	case e.get("MPI_LOCALNRANKS") != "":
		return "hydra"
	}
	return "mpi launcher"
}

// locals reads a rank among those of this host and their number, if both are said.
func (e *environment) locals(rankName, sizeName string) (rank, size int, err error) {
	if e.get(rankName) == "" || e.get(sizeName) == "" {
		return 0, 0, nil
	}
	return e.rankOf(rankName, sizeName)
}
