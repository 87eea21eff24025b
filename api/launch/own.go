package launch

import (
	"context"
	"fmt"
	"net"
	"os"
)

// findExplicit: the caller says it all.
func (e *environment) findExplicit() (*place, error) {
	switch {
	case e.Size == 0:
		return nil, nil
	case e.Size < 0 || e.Size > MaxSize:
		return nil, bad("%d ranks, 1 to %d", e.Size, MaxSize)
	case e.Rank < 0 || e.Rank >= e.Size:
		return nil, bad("rank %d of %d", e.Rank, e.Size)
	}
	p := &place{launcher: "explicit configuration", rank: e.Rank, size: e.Size}
	return p, e.meetAt(p, e.Rendezvous, "Config.Rendezvous (or "+envRendezvous+")")
}

// findOwn: the variables of this package.
func (e *environment) findOwn() (*place, error) {
	if e.get(envRank) == "" {
		return nil, nil
	}
	rank, size, err := e.rankOf(envRank, envSize)
	if err != nil {
		return nil, err
	}
	p := &place{launcher: "env: EFACTOR_ variables", rank: rank, size: size}
	if err := e.meetAt(p, e.Rendezvous, envRendezvous); err != nil {
		return nil, err
	}
	return p, nil
}

// meetAt makes p one that meets at addr; wants names the variable to set.
func (e *environment) meetAt(p *place, addr, wants string) error {
	if p.size == 1 {
		p.join = joinAlone
		return nil
	}
	if addr == "" {
		return bad("%s: %d ranks need a place to meet: set %s to host:port of rank 0", p.launcher, p.size, wants)
	}
	if err := checkRendezvous(addr); err != nil {
		return err
	}
	p.launcher += fmt.Sprintf(", rendezvous at %s", addr)
	p.join = func(ctx context.Context, e *environment, p *place) (carrier, error) {
		return joinRendezvous(ctx, e, p, addr)
	}
	return nil
}

func checkRendezvous(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("rendezvous %q: want host:port", addr)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return bad("rendezvous %q: port %q", addr, port)
	}
	if host == "" {
		return bad("rendezvous %q: want host:port, where all ranks find rank 0", addr)
	}
	return nil
}

// inherited is the listener that the starter of rank 0 has opened for it, if there
// is one.
func (e *environment) inherited() (net.Listener, error) {
	fd, ok, err := e.number(envRendezvousFD, 3, 1<<16)
	if err != nil || !ok {
		return nil, err
	}
	f, err := takeSocket(fd)
	if err != nil {
		return nil, bad("%s=%d: %w", envRendezvousFD, fd, err)
	}
	l, err := net.FileListener(f)
	_ = f.Close() // l has its own
	if err != nil {
		return nil, bad("%s=%d: %w", envRendezvousFD, fd, err)
	}
	_ = os.Unsetenv(envRendezvousFD) // the number may soon mean something else
	return l, nil
}
