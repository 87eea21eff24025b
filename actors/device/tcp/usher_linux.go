package tcp

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// errOtherUser: the process at the other end belongs to another user.
var errOtherUser = fmt.Errorf("%w: a process of another user (Config.AnyLocalUser)", errImpostor)

// usher finds out whether the process at the other end of a connection within this host
// belongs to our user. The system may take its time to answer, so a goroutine asks; it
// exists while there are questions. An eventfd tells the shard of answers.
type usher struct {
	bell int
	uid  uint32

	mu     sync.Mutex
	owners *owners // the goroutine's
	asked  []*question
	done   []*question
	busy   bool // the goroutine exists
	over   bool
}

// question is about the other side of a connection.
type question struct {
	l    *lane // for the shard
	pair sockPair
	over atomic.Bool // the connection was closed: nobody wants to know
	err  error       // the answer; nil: it is our user
}

func newUsher() (*usher, error) {
	bell, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: eventfd: %w", err)
	}
	return &usher{bell: bell, uid: uint32(os.Geteuid()), owners: newOwners()}, nil
}

// ask puts a question, of which a connection has one at a time.
func (u *usher) ask(q *question) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, q)
	if !u.busy {
		u.busy = true
		go u.run()
	}
}

// answers takes what is known by now.
func (u *usher) answers() []*question {
	drainCounter(u.bell)
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.done
	u.done = nil
	return list
}

// run answers questions until there are none.
func (u *usher) run() {
	for q := u.next(nil); q != nil; q = u.next(q) {
		if q.over.Load() {
			continue
		}
		uid, err := u.owners.of(q.pair)
		if q.err = err; err == nil && uid != u.uid {
			q.err = fmt.Errorf("%w: user %d", errOtherUser, uid)
		}
	}
}

// next hands an answer over and takes the next question; nil: there is none.
func (u *usher) next(q *question) *question {
	u.mu.Lock()
	defer u.mu.Unlock()
	if q != nil && !u.over {
		u.done = append(u.done, q)
		one := [8]byte{1} // in any byte order: not zero, far from the limit
		_, _ = unix.Write(u.bell, one[:])
	}
	if len(u.asked) == 0 || u.over {
		u.busy = false
		if u.over {
			u.release()
		}
		return nil
	}
	first := u.asked[0]
	u.asked[0] = nil
	u.asked = u.asked[1:]
	return first
}

// close ends it. The shard must not use it afterwards.
func (u *usher) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	if !u.busy {
		u.release()
	}
}

func (u *usher) release() {
	_ = unix.Close(u.bell)
	u.owners.close()
}
