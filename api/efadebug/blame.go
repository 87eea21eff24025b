package efadebug

import (
	"slices"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// stuckAfter is for how long an operation has not got on that counts as waiting.
const stuckAfter = time.Second

// blame finds out which rank waits for which, and who is behind it.
func (j *Job) blame(addresses []efa.Address) {
	ranks := map[string]int{} // by what snapshots call their peers
	for rank, a := range addresses {
		for _, scheme := range []string{"shm", "tcp", "efa", "sim"} {
			if raw, ok := a.Raw(scheme); ok {
				ranks[efa.NewAddress(scheme, raw).String()] = rank
			}
		}
	}
	for i := range j.Ranks {
		r := &j.Ranks[i]
		for _, e := range r.Entries {
			if e.Snapshot == nil {
				continue
			}
			for _, o := range e.Snapshot.Operations {
				on, known := ranks[o.Peer]
				// What has no ID is a peer's: it waits for the rank itself.
				if known && o.ID != 0 && on != i && o.Still >= stuckAfter && !slices.Contains(r.Waits, on) {
					r.Waits = append(r.Waits, on)
				}
			}
		}
		slices.Sort(r.Waits)
	}
	for i := range j.Ranks {
		if waiting := j.waitFor(i); len(waiting) > 0 && len(j.Ranks[i].Waits) == 0 {
			j.accuse(i, waiting)
		}
	}
	if len(j.Culprits) > 0 {
		return
	}
	for i := range j.Ranks {
		if waiting := j.waitFor(i); slices.Contains(waiting, i) {
			j.accuse(i, waiting)
		}
	}
}

func (j *Job) accuse(rank int, waiting []int) {
	r := &j.Ranks[rank]
	j.Culprits = append(j.Culprits, Culprit{rank, r.Name, r.Error != "", waiting})
}

// waitFor lists the ranks that wait for one, directly or by way of others. It is among them if it
// waits for itself so.
func (j *Job) waitFor(rank int) []int {
	found := []int{}
	for next := []int{rank}; len(next) > 0; {
		on := next[0]
		next = next[1:]
		for i := range j.Ranks {
			if slices.Contains(j.Ranks[i].Waits, on) && !slices.Contains(found, i) {
				found = append(found, i)
				next = append(next, i)
			}
		}
	}
	slices.Sort(found)
	return found
}
