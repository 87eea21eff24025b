package peers

import (
	"context"
	"time"

	"github.com/efactor/efactor/bench/stream/contest"
	"github.com/efactor/efactor/bench/stream/flow"
)

// The ways between two processes.
const (
	SHM = "shm"
	TCP = "tcp"
)

// Peer is a system over one way. What it cannot do is nil.
type Peer struct {
	Name string // libfabric-shm
	Way  string
	// PingPong sends n messages of so many bytes each way.
	PingPong func(ctx context.Context, size, n int) (Trip, error)
	// Stream does a plan of package flow one way, Both one for both ways.
	Stream, Both func(ctx context.Context, p flow.Plan) (*flow.Result, error)
	// Fan does one of several senders to one receiver.
	Fan contest.Fan
	// Each has n messages or more matched with one of so many receives, or one of so many that have come with each of n
	// receives, and gives the time of one.
	Each func(ctx context.Context, depth int, came, random bool, n int) (time.Duration, error)
	// Allreduce does n calls with float32.
	Allreduce func(ctx context.Context, ranks, size, n int) (time.Duration, error)
}

// Trip is what ping-pong came to.
type Trip struct {
	Half float64 // microseconds of half a round trip
	CPU  float64 // of both processes for a message; 0: unknown
}

// Missing is a system that is not here.
type Missing struct {
	Name string
	Err  error
}

// Find looks for all systems. Programs in C are compiled in dir.
func Find(ctx context.Context, dir string) (list []Peer, missing []Missing) {
	for _, s := range []struct {
		name string
		find func(context.Context, string) ([]Peer, error)
	}{
		{"libfabric", libfabric},
		{"libfabric's streams", libfabricStreams},
		{"mpich", mpich},
		{"openmpi", openMPI},
		{"ucx", ucx},
		{"ucx's streams both ways and of several senders", ucxStreams},
	} {
		found, err := s.find(ctx, dir)
		if err != nil {
			missing = append(missing, Missing{s.name, err})
			continue
		}
		list = append(list, found...)
	}
	return list, missing
}

// warm is how many operations go before n that count.
func warm(n int) int { return n/10 + 1 }
