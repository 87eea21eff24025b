package suite

import (
	"context"
	"strconv"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

// itself is the peer of a case that shows how a figure grows: efactor with nothing in the
// way.
const itself = "self"

// match is half a round trip of tagged messages while receives for other tags wait in the
// matcher, or messages that nobody has asked for, with tags in order or at random.
func (s *Suite) match() (list []trial.Case) {
	j := job.Job{Device: peers.SHM, Progress: s.mode("manual"), Size: question}
	for _, came := range []bool{false, true} {
		for _, depth := range s.pick([]int{64, 1024, 8192, 65536}, []int{8192}) {
			name := "match/"
			if came {
				name = "match/unexpected/"
			}
			full, empty := j, j
			full.Depth, full.Came, empty.Came = depth, came, true // which has tags
			random := full
			random.Random = true
			list = append(list, trial.Case{
				Name: name + strconv.Itoa(depth), Unit: "us", Pilot: pilotTrips,
				Ours:  []trial.Contestant{s.pingPong("", full, false), s.pingPong("/random", random, false)},
				Peers: []trial.Contestant{s.pingPong(itself, empty, false)},
			})
		}
	}
	return list
}

// each is the time of a message that is matched with one of many receives, or of a receive with one of many messages.
func (s *Suite) each() (list []trial.Case) {
	for _, way := range []struct {
		name         string
		came, random bool
	}{{"", false, false}, {"random/", false, true}, {"unexpected/", true, false}, {"unexpected/random/", true, true}} {
		for _, depth := range s.pick([]int{few, 8192, 65536}, nil) {
			j := job.Job{
				Kind: job.Each, Device: peers.SHM, Progress: s.mode("manual"), Size: question, Depth: depth, Came: way.came, Random: way.random,
			}
			c := trial.Case{Name: "match/each/" + way.name + strconv.Itoa(depth), Unit: "us", Pilot: pilotTrips, Ours: []trial.Contestant{s.ofMany("", j)}}
			if j.Depth = few; depth > few {
				c.Peers = []trial.Contestant{s.ofMany(itself, j)}
			}
			for i := range s.Peers {
				p := &s.Peers[i]
				if p.Each == nil || depth > mostEach {
					continue
				}
				c.Peers = append(c.Peers, trial.Contestant{Name: p.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
					t, err := p.Each(ctx, depth, way.came, way.random, min(n, mostPasses*depth))
					return trial.Sample{Value: float64(t) * usec, Each: t}, err
				}})
			}
			list = append(list, c)
		}
	}
	return list
}

const (
	// mostEach is for peers, which go through lists: with more at random they take seconds.
	mostEach = 8192
	// mostPasses bounds what a run takes besides: between passes through the many the processes wait for each other.
	mostPasses = 200
)

func (s *Suite) ofMany(name string, j job.Job) trial.Contestant {
	return trial.Contestant{Name: name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := j
		j.Count = min(n, mostPasses*j.Depth)
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: r.Nanos * usec, Each: duration(r.Nanos)}, nil
	}}
}
