package tcp

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// errOtherUser: the process at the other end belongs to another user.
var errOtherUser = fmt.Errorf("%w: a process of another user (Config.AnyLocalUser)", errImpostor)

// uidChecker finds out whether the process at the other end of a connection within this host
// belongs to our user. The system may take its time to answer, so a goroutine asks; it
// exists while there are questions.
type uidChecker struct {
	bell *bell
	uid  uint32

	mu      sync.Mutex
	owners  *socketOwners // the goroutine's
	queries []*uidQuery
	busy    bool // the goroutine exists
	over    bool
}

func newUIDChecker(b *bell) *uidChecker {
	return &uidChecker{bell: b, uid: uint32(os.Geteuid()), owners: newSocketOwners()}
}

// ask puts a question, of which a lane has one at a time.
func (u *uidChecker) ask(q *uidQuery) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queries = append(u.queries, q)
	if !u.busy {
		u.busy = true
		go u.run()
	}
}

// run answers questions until there are none.
func (u *uidChecker) run() {
	for q := u.next(); q != nil; q = u.next() {
		if q.over.Load() {
			continue
		}
		uid, err := u.owners.of(q.pair)
		if q.err = err; err == nil && uid != u.uid {
			q.err = fmt.Errorf("%w: user %d", errOtherUser, uid)
		}
		q.answered.Store(true)
		u.bell.ring(q.l)
	}
}

// next takes the next question; nil: there is none.
func (u *uidChecker) next() *uidQuery {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queries) == 0 || u.over {
		if u.busy = false; u.over {
			u.owners.close()
		}
		return nil
	}
	q := u.queries[0]
	u.queries[0] = nil
	u.queries = u.queries[1:]
	return q
}

// close ends it. The shard must not use it afterwards.
func (u *uidChecker) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over = true; !u.busy {
		u.owners.close()
	}
}

// sockPair is a connection as the socket at its other end knows it.
type sockPair struct {
	near address // of that socket
	far  address // of ours
}

// Errors of socketOwners.of.
var (
	// errNoSocket: the system knows no such socket.
	errNoSocket = errors.New("tcp: the other side's socket is not there")
	// errNoOwners: the system does not tell whose sockets are.
	errNoOwners = errors.New("tcp: the system does not say which user is at the other side (give a Secret or TLS, or set AnyLocalUser)")
)

// uidQuery is about the other side of a lane.
type uidQuery struct {
	l        *lane
	pair     sockPair
	over     atomic.Bool // the lane was closed: nobody wants to know
	answered atomic.Bool
	err      error // the answer; nil: it is our user
}
