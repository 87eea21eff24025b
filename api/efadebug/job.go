package efadebug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
)

// Job is a whole job in the JSON form, at ?job: what each rank's page has, and on whom they wait.
type Job struct {
	Ranks []Rank `json:"ranks"`
	// Culprits are the ranks on which others wait for a second and more, and that do not wait
	// for another one themselves; if there is none, but ranks that wait for each other, these.
	Culprits []Culprit `json:"culprits"`
}

// Rank is one rank of a Job.
type Rank struct {
	Rank    int     `json:"rank"`
	Name    string  `json:"name"` // as launch has it, of this rank's host for example
	Entries []Entry `json:"entries,omitempty"`
	Error   string  `json:"error,omitempty"` // why there are none
	Waits   []int   `json:"waits,omitempty"` // for which ranks
}

// Culprit is a rank that holds others up.
type Culprit struct {
	Rank    int    `json:"rank"`
	Name    string `json:"name"`
	Silent  bool   `json:"silent"`  // it does not answer
	Waiting []int  `json:"waiting"` // for it, some of them by way of others
}

// The tags of messages between pages: 0xED, what it is, and a question's number.
const (
	tagPages  = 0xED << 56
	tagAsk    = tagPages | 1<<48
	tagAnswer = tagPages | 2<<48
	tagNumber = 1<<48 - 1
)

// member is the page as one of a job's.
type member struct {
	page   *Page
	group  *launch.Group
	ctx    context.Context
	leave  context.CancelFunc
	served sync.WaitGroup
	busy   chan struct{} // one entry for each answer in the making

	mu      sync.Mutex
	number  uint64
	asked   map[uint64]question
	waiting map[int]bool // ranks that have not answered yet, not even too late
}

// question is one that a rank has been asked.
type question struct {
	rank   int
	answer chan []Entry
}

// maxAnswers is how many questions of others are answered at a time. More are not.
const maxAnswers = 8

// Join has the page show the ranks of a group, at ?job and above all else, and answer the pages of
// the others, which must Join, too. It uses tagged messages of the group's endpoint whose tag begins with
// 0xED. leave ends that, before the group is closed; a page has one job at a time.
func (p *Page) Join(g *launch.Group) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{
		page: p, group: g, ctx: ctx, leave: cancel, busy: make(chan struct{}, maxAnswers),
		asked: map[uint64]question{}, waiting: map[int]bool{},
	}
	p.mu.Lock()
	p.job = m
	p.mu.Unlock()
	m.served.Go(m.serve)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		if p.job == m {
			p.job = nil
		}
		p.mu.Unlock()
		cancel()
		m.served.Wait()
	})
}

// serve takes questions and answers.
func (m *member) serve() {
	ep := m.group.Endpoint
	for {
		d, err := ep.NextTag(m.ctx, efa.Match{Tag: tagPages, Ignore: 1<<56 - 1})
		var long *efa.TooLongError
		switch {
		case err == nil:
		case errors.As(err, &long):
			m.served.Go(func() { _ = long.Claimed.Discard(m.ctx) }) // which takes as long as its sender likes
			continue
		case m.ctx.Err() != nil, errors.Is(err, efa.ErrClosed), errors.Is(err, efa.ErrIO):
			return
		default:
			continue // it is of one message: its sender has failed
		}
		switch number := d.Tag & tagNumber; d.Tag &^ tagNumber {
		case tagAsk:
			m.answer(d.Message, number)
		case tagAnswer:
			m.answered(d.From, number, d.Body)
		}
		d.Release()
	}
}

// answer answers a question, beside those that come meanwhile.
func (m *member) answer(q efa.Message, number uint64) {
	select {
	case m.busy <- struct{}{}:
	default:
		return
	}
	m.served.Go(func() {
		defer func() { <-m.busy }()
		text, err := json.Marshal(m.page.entries(m.ctx))
		if err != nil || q.From >= efa.NoAddr { // a stranger has no page
			return
		}
		ctx, cancel := context.WithTimeout(m.ctx, patience)
		defer cancel()
		_ = m.group.Endpoint.SendTag(ctx, q.From, tagAnswer|number, text) // the other's page says that there is none
	})
}

// answered hands an answer to the request that waits for it.
func (m *member) answered(from efa.Addr, number uint64, text []byte) {
	m.mu.Lock()
	q, ok := m.asked[number]
	if !ok || m.group.Peers[q.rank] != from {
		m.mu.Unlock()
		return
	}
	delete(m.asked, number)
	delete(m.waiting, q.rank)
	m.mu.Unlock()
	var es []Entry
	if json.Unmarshal(text, &es) == nil {
		q.answer <- es // there is room for one
	}
}

var errSilent = fmt.Errorf("it does not answer within %v", patience)

// ask asks a rank for its entries. One that has not answered the last question is not asked again
// before it has, so that questions do not pile up.
func (m *member) ask(ctx context.Context, rank int) ([]Entry, error) {
	q := question{rank, make(chan []Entry, 1)}
	m.mu.Lock()
	if m.waiting[rank] {
		m.mu.Unlock()
		return nil, errSilent
	}
	m.number++
	number := m.number & tagNumber
	m.asked[number], m.waiting[rank] = q, true
	m.mu.Unlock()
	if err := m.group.Endpoint.SendTag(ctx, m.group.Peers[rank], tagAsk|number, nil); err != nil && ctx.Err() == nil {
		m.mu.Lock()
		delete(m.asked, number)
		delete(m.waiting, rank)
		m.mu.Unlock()
		return nil, err
	}
	select {
	case es := <-q.answer:
		return es, nil
	case <-ctx.Done():
		return nil, errSilent
	}
}

// gather asks all ranks at the same time.
func (m *member) gather(ctx context.Context) *Job {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	j := &Job{Ranks: make([]Rank, m.group.Size)}
	var asking sync.WaitGroup
	for i := range j.Ranks {
		r := &j.Ranks[i]
		r.Rank, r.Name = i, m.group.AddressVector.Name(m.group.Peers[i])
		asking.Go(func() {
			var err error
			if i == m.group.Rank {
				r.Entries = m.page.entries(ctx)
			} else if r.Entries, err = m.ask(ctx, i); err != nil {
				r.Error = err.Error()
			}
		})
	}
	asking.Wait()
	j.blame(m.group.Addresses)
	return j
}

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
