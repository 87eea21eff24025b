package launch

import (
	"context"

	"github.com/efactor/efactor/api/launch/internal/rendezvous"
	"github.com/efactor/efactor/internal/jobcert"
)

// joinRendezvous meets the others where rank 0 is.
func joinRendezvous(ctx context.Context, e *environment, p *place, addr string) (carrier, error) {
	cfg := rendezvous.Config{
		Rank: p.rank, Size: p.size, Job: e.Job, Addr: addr, Insecure: e.Insecure, Logger: e.Logger,
	}
	if len(e.Secret) > 0 {
		a, err := jobcert.FromSecret(e.Secret)
		if err != nil {
			return nil, bad("job secret: %w", err)
		}
		if cfg.Server, cfg.Client, err = a.Launch(); err != nil {
			return nil, err
		}
	}
	if p.rank == 0 {
		var err error
		if cfg.Listener, err = e.inherited(); err != nil {
			return nil, err
		}
	}
	b, err := rendezvous.Join(ctx, cfg)
	if err != nil { // else a nil *Board would be a carrier
		if cfg.Listener != nil {
			_ = cfg.Listener.Close() // as a rule it is closed already
		}
		return nil, err
	}
	return b, nil
}
