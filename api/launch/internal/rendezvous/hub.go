package rendezvous

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// The rate of log lines about strangers.
const (
	mostLines   = 5
	linesPeriod = time.Minute
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

	linesSince clock.Time // when the present period began
	lines      int        // asked for in it
	unsaid     int        // left out since the last
}

func newHub(cfg *Config) *hub {
	return &hub{
		cfg: cfg, log: cfg.Logger, members: make([]*member, cfg.Size), keys: make(map[string]int),
		changed: make(chan struct{}, 1),
	}
}

// enter adds a member after its HELLO. If the hub has failed the member is informed. The
// error is why a second process of its rank is not taken in: that ends the job only if both
// have its secret.
func (h *hub) enter(m *member) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was := h.members[m.rank]; was != nil {
		f := board.Failed(m.rank, board.Mistake, "two processes say that they are rank %d: at %s and at %s", m.rank, was.from, m.from)
		if h.cfg.Server != nil {
			h.failLocked(f)
		}
		return f
	}
	h.members[m.rank] = m
	h.come++
	h.tick()
	if h.failed != nil {
		m.end(h.failed)
	} else {
		m.send(newFrame(typeWelcome, nil))
	}
	return nil
}

// former returns the member of a rank that may have taken its leave: all were at a fence.
func (h *hub) former(rank int) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fence == 0 || h.failed != nil {
		return nil
	}
	return h.members[rank]
}

// missing is how many ranks have not come yet.
func (h *hub) missing() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.members) - h.come
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
	close(m.gone)
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
	return board.Ranks(len(h.members), func(r int) bool { return h.members[r] != nil && h.members[r].left() })
}

// refuse counts a connection that was not of this job.
func (h *hub) refuse(from string, why error) {
	h.complain("launch: refused a connection", "from", from, "reason", why)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused++
	h.why = why.Error() + " (" + from + ")"
}

// complain logs what strangers can cause at will: not more than mostLines in each
// linesPeriod, and then how many were left out.
func (h *hub) complain(msg string, args ...any) {
	h.mu.Lock()
	now := h.cfg.clock.Now()
	if h.lines == 0 || now.Sub(h.linesSince) >= linesPeriod {
		h.lines, h.linesSince = 0, now
	}
	h.lines++
	over := h.lines > mostLines
	if over {
		h.unsaid++
	} else if h.unsaid > 0 {
		args = append(args, "left out before", h.unsaid)
		h.unsaid = 0
	}
	h.mu.Unlock()
	if !over {
		h.log.Warn(msg, args...)
	}
}

// complainOfRest logs how many lines were left out, when there will be no more.
func (h *hub) complainOfRest() {
	if h.unsaid > 0 {
		h.log.Warn("launch: lines about refused connections were left out", "lines", h.unsaid, "refused in all", h.refused)
	}
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
