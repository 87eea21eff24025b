package engine

import (
	"errors"
	"time"

	"github.com/efactor/efactor/interop/efaemu/memory"
)

// alivePeriod is how often the engine looks whether programs are there: often enough
// that the number of a process can't have become another's.
const alivePeriod = 50 * time.Millisecond

// lookAlive ends the queue pairs of programs that are gone, though another process
// has their files: a child, for example. A transfer would fail as well, but one may
// come much later.
func (e *Engine) lookAlive() {
	if e.now.Sub(e.looked) < alivePeriod {
		return
	}
	e.looked = e.now
	var last memory.Space
	var over bool
	for _, q := range e.qps {
		if q.state >= gone {
			continue
		}
		if q.cfg.Space != last { // those of one program are often neighbours
			var b [1]byte
			last = q.cfg.Space
			over = errors.Is(last.ReadAt(b[:], 0), memory.ErrGone)
		}
		if over {
			q.vanish()
		}
	}
}
