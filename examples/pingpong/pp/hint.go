package pp

import (
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/pingpong/ctrl"
)

// The tool may speak something else than we do. From libfabric 2 on its default is efa-direct;
// from 2.5 on it sends its prefix, which no provider fills, before each message.

// prefix is how many bytes that are.
const prefix = 176

// errOther is why a game ends in which no message can be understood.
var errOther = errors.New("the partner's packets are not of the protocol: it may speak efa-direct " +
	"(fi_pingpong of libfabric 2 does unless it gets -f efa; or start this side with -f efa-direct)")

// lookForOthers ends w when packets come that are none of the protocol, and no message. The
// caller calls stop in the end.
func (g *game) lookForOthers(w *ctrl.Watch) (stop func()) {
	if g.cfg.Direct || g.heard.Load() {
		return func() {}
	}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		look := time.NewTicker(500 * time.Millisecond)
		defer look.Stop()
		for !g.heard.Load() {
			select {
			case <-done:
				return
			case <-look.C:
			}
			s, err := g.ep.Stats(w.Alive)
			if err == nil && !g.heard.Load() && s["BadType"]+s["BadVersion"]+s["BadShort"]+s["BadLength"]+s["NoAddress"]+s["StaleConnID"] > 0 {
				w.End(errOther)
			}
		}
	}()
	return func() { close(done); <-over }
}

const headers = ", and both with -f efa-direct: another partner's messages have headers"

// wrongLength is the error of a message p that should have size bytes.
func (g *game) wrongLength(p []byte, size int) error {
	if err := prefixError(len(p), size); err != nil {
		return err
	}
	hint := "start both sides with the same -S"
	if g.cfg.Direct && len(p) > size {
		hint += headers
	}
	return fmt.Errorf("got a message of %d bytes, want %d: %s", len(p), size, hint)
}

// prefixed finds the likely reason of a truncation.
func (g *game) prefixed(err error, size int) error {
	var e *efa.OpError
	if !errors.As(err, &e) || e.Lost == 0 {
		return err
	}
	if p := prefixError(e.N+e.Lost, size); p != nil {
		return p
	}
	if g.cfg.Direct {
		return fmt.Errorf("%w%s", err, headers)
	}
	return err
}

func prefixError(got, size int) error {
	if got != size+prefix {
		return nil
	}
	return fmt.Errorf("got %d bytes more than the %d of the message: fi_pingpong of libfabric 2.5 and later sends its prefix as data; use that of 2.4 or earlier",
		prefix, size)
}
