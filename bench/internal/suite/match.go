package suite

import (
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
