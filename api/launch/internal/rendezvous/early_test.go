package rendezvous

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestEarly: a rank that has left a board waits for the job's next one while rank 0 is still
// at the first.
func TestEarly(t *testing.T) {
	for _, secret := range []string{"", secretA} {
		p := newParty(t, 2, secret)
		refused := make(chan struct{})
		p.ranks[0].cfg.Logger = slog.New(&early{Handler: slog.DiscardHandler, seen: sync.OnceFunc(func() { close(refused) })})
		addr := p.ranks[0].cfg.Addr
		p.run(func(r *rank) error {
			if err := r.b.Fence(r.ctx); err != nil {
				return err
			}
			if r.cfg.Rank == 0 {
				<-refused
				if err := r.b.Close(); err != nil {
					return err
				}
				l, err := net.Listen("tcp", addr)
				if err != nil {
					return err
				}
				r.cfg.Listener = l
			} else if err := r.b.Close(); err != nil {
				return err
			}
			var err error
			if r.b, err = Join(r.ctx, r.cfg); err != nil {
				return err
			}
			return r.b.Fence(r.ctx)
		})
		p.noErrors()
	}
}

// early is a log that looks for the line about a rank that comes early.
type early struct {
	slog.Handler
	seen func()
}

func (e *early) Enabled(context.Context, slog.Level) bool { return true }

func (e *early) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" && strings.Contains(a.Value.String(), errEarly.Error()) {
			e.seen()
		}
		return true
	})
	return nil
}
