package launch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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
func (e *environment) findPMI() (*place, error) {
	if e.pmiName() == "slurm" {
		if skip, err := e.slurmByHand("pmi", envPMISize); skip || err != nil {
			return nil, err
		}
	}
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
			return nil, bad("%s=%d: %w; was the program started by way of another that closes descriptors? Without the launcher: %s=%s", envPMIFD, fd, err, envLauncher, aloneName)
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

// answerTime is the time for a launcher's first answers, for which it need not wait for
// other ranks. A process that does not speak PMI at all is found out that way.
const answerTime = time.Minute

const breakOffTime = 5 * time.Second

// brokenOff are connections that end with the process, without finalization.
var brokenOff struct {
	sync.Mutex
	at []carrier
}

// breakOff has the launcher know that this process is one of the job's, although it will
// not meet the others: mpiexec leaves them waiting for one that ends before its first
// word, but not for one that ends without its last.
func (e *environment) breakOff(ctx context.Context) {
	p, err := e.find()
	if err != nil || !p.stays {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, breakOffTime)
	defer cancel()
	if at, err := p.join(ctx, e, p); err == nil {
		brokenOff.Lock()
		defer brokenOff.Unlock()
		brokenOff.at = append(brokenOff.at, at)
	}
}

// openPMI begins to speak PMI, and learns which.
func (e *environment) openPMI(ctx context.Context, p *place, conn net.Conn, where string) (carrier, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer on %s within %v", where, answerTime))
	defer cancel()
	cfg := pmi.Config{Conn: conn, Version: 1, Rank: p.rank, Size: p.size, ID: e.get(envPMIID), JobID: e.get(envPMIJobID)}
	if e.pmiName() == "slurm" || e.get(envPMI) == "2" {
		cfg.Version = 2
	}
	k, err := pmi.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if k.Size > MaxSize {
		_ = k.Close() // the first error is the cause
		return nil, bad("%d ranks, at most %d", k.Size, MaxSize)
	}
	p.rank, p.size = k.Rank, k.Size
	p.launcher = e.pmiName() + ": PMI-" + strconv.Itoa(k.Version) + " on " + where
	return k, nil
}

// pmiName guesses the launcher. srun sets the job's id, hydra's mpiexec does not.
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
