package rendezvous

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
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
	at      netip.Addr // where a rank found us, best one of another host
	abroad  bool       // at is from another host
	refused int        // connections that were not ours
	why     string     // the last of them
	changed chan struct{}

	linesSince clock.Time // when the present period began
	lines      int        // asked for in it
	unsaid     int        // left out since the last
}

func newHub(cfg *Config) *hub {
	return &hub{
		cfg: cfg, log: cfg.Logger, members: make([]*member, cfg.Size), keys: map[string]int{keyAt: cfg.Rank},
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

// keyAt is the key of the hub's own entry: the address by which ranks of other hosts found it.
const keyAt = "hub.at"

// found notes an address that leads here.
func (h *hub) found(conn net.Conn) {
	abroad := !h.cfg.near(conn)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsValid() || abroad && !h.abroad {
		h.at, h.abroad = addrOf(conn.LocalAddr()), abroad
	}
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
	if h.fence == 0 && h.abroad { // all have come: it will not change
		h.entries = appendEntry(h.entries, keyAt, []byte(h.at.String()))
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

// notifyAll waits until all members have received the hub's failure, but not for long: this
// process may end right after.
func (h *hub) notifyAll() {
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

// member is a rank, as the hub sees it.
type member struct {
	rank int
	from string
	conn net.Conn
	out  chan []byte   // to its writer; the hub's lock guards sending and closing
	done bool          // out is closed
	told chan struct{} // closed when all of out has been written, or cannot be
	gone chan struct{} // closed when it has left

	waits bool // at a fence; guarded by the hub
}

// backlog is how many frames may wait for a member that obeys the protocol: WELCOME,
// RESULT, ABORT.
const backlog = 4

func newMember(rank int, from string, conn net.Conn) *member {
	return &member{rank: rank, from: from, conn: conn, out: make(chan []byte, backlog), told: make(chan struct{}), gone: make(chan struct{})}
}

// left reports whether the member's connection has ended.
func (m *member) left() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// send leaves a frame to the writer.
func (m *member) send(frame []byte) {
	if m.done {
		return
	}
	select {
	case m.out <- frame:
	default: // asks and does not listen
		m.done = true
		close(m.out)
	}
}

// end sends the reason of the failure as the last frame to the member.
func (m *member) end(f *board.Failure) {
	m.send(abortFrame(f))
	if !m.done {
		m.done = true
		close(m.out)
	}
}

// write writes frames, and then ends the direction to the member: that will read
// everything.
func (m *member) write() {
	defer close(m.told)
	ok := true
	for frame := range m.out {
		if ok {
			_ = m.conn.SetWriteDeadline(clock.Deadline(writeTime))
			_, err := m.conn.Write(frame)
			ok = err == nil
		}
	}
	if half, can := m.conn.(interface{ CloseWrite() error }); can && ok {
		_ = half.CloseWrite()
	}
	_ = m.conn.SetReadDeadline(clock.Deadline(byeTime))
}

// attend runs the connection of a member that has entered to its end.
func (h *hub) attend(m *member) {
	var writer sync.WaitGroup
	writer.Go(m.write)
	for {
		typ, rest, err := readFrame(m.conn, maxFence)
		if err != nil {
			h.leave(m, cause(err))
			break
		}
		if typ == typeBye {
			h.leave(m, nil)
			break
		}
		if f := h.handle(m, typ, rest); f != nil {
			h.fail(f)
		}
	}
	h.mu.Lock()
	if !m.done {
		m.done = true
		close(m.out)
	}
	h.mu.Unlock()
	writer.Wait()
	_ = m.conn.Close()
}

// handle returns why the job is over, if it is.
func (h *hub) handle(m *member, typ byte, rest []byte) *board.Failure {
	switch typ {
	case typeFence:
		number, entries, err := parseNumbered(rest)
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		return h.atFence(m, number, entries)
	case typeLate:
		number, _, err := parseNumbered(rest)
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		return h.late(number)
	case typeAbort:
		f, err := parseAbort(rest, len(h.members))
		if err != nil {
			return board.Failed(m.rank, board.Other, "rank %d: %v", m.rank, err)
		}
		f.Rank = m.rank // it can only give up for itself
		return f
	default:
		return board.Failed(m.rank, board.Other, "rank %d sent a frame of type %d", m.rank, typ)
	}
}

// cause is an error of a connection without the addresses that its net.OpError repeats.
func cause(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("connection closed")
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
