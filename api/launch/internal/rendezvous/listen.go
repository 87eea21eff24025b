package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// listen opens rank 0's port. While it is in use it queries the listener: another
// process that claims to be rank 0, or a job that will end.
func listen(ctx context.Context, cfg *Config) (net.Listener, error) {
	where, err := listenAddr(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for pause, warned := firstPause, false; ; pause = min(2*pause, longestPause) {
		lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: cfg.control}
		l, err := lc.Listen(ctx, "tcp", where)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("rank 0: %w", err)
		}
		if f := occupied(ctx, cfg); f != nil {
			return nil, f
		}
		if !warned {
			warned = true
			cfg.Logger.Warn("launch: the port of the rendezvous is in use, waiting", "addr", where)
		}
		t := clock.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("rank 0 could not open the rendezvous: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// occupied queries the listener of the port; not nil if it is this very job.
func occupied(ctx context.Context, cfg *Config) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := attempt(ctx, cfg)
	if err == nil { // rank 0 would have said that it is rank 0
		_ = conn.Close()
		return nil
	}
	var f *board.Failure
	if errors.As(err, &f) && f.Kind == board.Mistake {
		return f
	}
	return nil
}

// listenAddr is where to listen: all addresses of this host, unless it is only for this
// host. Names are not looked up if they need not be, since a host may know itself by a
// name that leads others elsewhere, 127.0.1.1 for one.
func listenAddr(ctx context.Context, cfg *Config) (string, error) {
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return "", fmt.Errorf("rendezvous: %w", err)
	}
	ip := net.ParseIP(host)
	switch {
	case ip != nil && ip.IsLoopback(), host == "localhost":
		return cfg.Addr, nil
	case cfg.beyond():
		return net.JoinHostPort("", port), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotLocal, err)
	}
	for _, ip := range ips {
		if ip.IsLoopback() {
			return net.JoinHostPort(ip.Unmap().String(), port), nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNotLocal, cfg.Addr)
}
