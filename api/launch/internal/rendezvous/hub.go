package rendezvous

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// hub is the server at rank 0: the ranks that have arrived, and the entries put so
// far.
type hub struct {
	cfg *Config
	log *slog.Logger

	mu      sync.Mutex
	members []*member // by rank; nil: has not come yet
	come    int
	fence   uint32         // the number of the next one
	waiting int            // members at it
	entries []byte         // put before it
	keys    map[string]int // the rank that put each key
	failed  *board.Failure
	refused int    // connections that were not ours
	why     string // the last of them
	changed chan struct{}
}

func newHub(cfg *Config) *hub {
	return &hub{
		cfg: cfg, log: cfg.Logger, members: make([]*member, cfg.Size), keys: make(map[string]int),
		changed: make(chan struct{}, 1),
	}
}

// enter adds a member after its HELLO. If the hub has failed the member is
// informed.
func (h *hub) enter(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.members[m.rank]
	if was == nil {
		h.members[m.rank] = m
		h.come++
		h.tick()
	}
	switch {
	case h.failed != nil:
		m.end(h.failed)
	case was != nil:
		f := board.Failed(m.rank, board.Mistake, "two processes say that they are rank %d: at %s and at %s", m.rank, was.from, m.from)
		m.end(f)
		h.failLocked(f)
	default:
		m.send(newFrame(typeWelcome, nil))
	}
}

// atFence notes that a member waits, and lets all go on if it was the last one.
func (h *hub) atFence(m *member, number uint32, entries []byte) *board.Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != nil {
		return nil
	}
	if m.waits || number != h.fence {
		return board.Failed(m.rank, board.Other, "rank %d is at fence %d, the others at %d", m.rank, number, h.fence)
	}
	if left := h.leftLocked(); left != "" {
		return board.Failed(board.Nobody, board.Gone, "rank %d waits for the others, but some have left: %s", m.rank, left)
	}
	var f *board.Failure
	if err := eachEntry(entries, func(key string, _ []byte) error {
		by, twice := h.keys[key]
		if twice {
			f = board.Failed(m.rank, board.Mistake, "key %q was put by rank %d and by rank %d", key, by, m.rank)
			return errFrame
		}
		h.keys[key] = m.rank
		return nil
	}); err != nil {
		if f == nil {
			f = board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		return f
	}
	if len(h.entries)+len(entries) > maxResult {
		return board.Failed(m.rank, board.Other, "the ranks put more than %d bytes", maxResult)
	}
	h.entries = append(h.entries, entries...)
	m.waits = true
	if h.waiting++; h.waiting < len(h.members) {
		return nil
	}
	result := numbered(typeResult, h.fence, h.entries)
	h.fence, h.waiting, h.entries = h.fence+1, 0, nil
	for _, m := range h.members {
		m.waits = false
		m.send(result)
	}
	return nil
}

// late finds the missing ranks of a fence, when a rank's time is up.
func (h *hub) late(number uint32) *board.Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if number != h.fence { // all are there meanwhile
		return nil
	}
	missing := board.Ranks(len(h.members), func(r int) bool { m := h.members[r]; return m == nil || !m.waits })
	f := board.Failed(board.Nobody, board.Deadline, "%d of %d ranks arrived in time, missing: %s", h.waiting, len(h.members), missing)
	if h.refused > 0 {
		f.Text += fmt.Sprintf("; connections refused: %d, the last one: %s", h.refused, h.why)
	}
	return f
}

// leave is the end of a member's connection.
func (h *hub) leave(m *member, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.left = true
	if why == nil {
		if h.waiting > 0 {
			h.failLocked(board.Failed(m.rank, board.Gone, "rank %d has left while others wait for it", m.rank))
		}
		return
	}
	h.failLocked(board.Failed(m.rank, board.Gone, "rank %d at %s went away: %v", m.rank, m.from, why))
}

// fail ends the job: all ranks are told the reason.
func (h *hub) fail(f *board.Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failLocked(f)
}

func (h *hub) failLocked(f *board.Failure) {
	if h.failed != nil {
		return
	}
	h.failed = f
	for _, m := range h.members {
		if m != nil {
			m.end(f)
		}
	}
	h.tick()
}

// tellAll waits until all members have received the hub's failure, but not for long: this
// process may end right after.
func (h *hub) tellAll() {
	h.mu.Lock()
	members := slices.Clone(h.members)
	h.mu.Unlock()
	bound := clock.NewTimer(lateTime)
	defer bound.Stop()
	for _, m := range members {
		if m == nil || m.rank == h.cfg.Rank {
			continue
		}
		select {
		case <-m.told:
		case <-bound.C:
			return
		}
	}
}

// leftLocked lists the ranks that said BYE.
func (h *hub) leftLocked() string {
	return board.Ranks(len(h.members), func(r int) bool { return h.members[r] != nil && h.members[r].left })
}

// refuse counts a connection that was not of this job.
func (h *hub) refuse(from string, why error) {
	h.log.Warn("launch: refused a connection", "from", from, "reason", why)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused++
	h.why = why.Error() + " (" + from + ")"
}

// lingers reports whether a rank may still connect that should get the reason. When the
// time was up, all have had theirs.
func (h *hub) lingers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed != nil && h.failed.Kind != board.Deadline && h.come < len(h.members)
}

// tick wakes the waiters for a change.
func (h *hub) tick() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}
