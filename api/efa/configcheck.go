package efa

import (
	"errors"
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/settings"
)

func (cfg *EndpointConfig) check(d *Domain) error {
	p, knobs := &cfg.Protocol, settings.Knobs(&cfg.Protocol)
	var errs []error
	bad := func(cond bool, err error, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...)))
		}
	}
	bad(cfg.AV != nil && cfg.AV.dom != d, ErrDomain, "the address vector is another domain's")
	for _, q := range []*Queue{cfg.SendQueue, cfg.RecvQueue} {
		bad(q != nil && q.dom != d, ErrDomain, "the queue is another domain's")
	}
	for _, n := range cfg.counters() {
		bad(n != nil && n.dom != d, ErrDomain, "the counter is another domain's")
	}
	if err := cfg.RecvPool.check(d, cfg); err != nil {
		errs = append(errs, err)
	}
	bad(cfg.ZeroCopyRecv && (cfg.Direct || cfg.Datagram || cfg.RecvPool != nil), ErrNotSupported, "ZeroCopyRecv with Direct or RecvPool")
	bad(cfg.ZeroCopyRecv && !d.fab.dev.Info().UserRecv, ErrNotSupported, "ZeroCopyRecv on %s", d.fab.Name())
	bad(cfg.Level > Delivered, ErrInvalid, "there is no completion level %d", cfg.Level)
	limits := d.Limits()
	for _, x := range []struct {
		name    string
		v, most int
	}{
		{"TxDepth", cfg.TxDepth, limits.MaxOps},
		{"RxDepth", cfg.RxDepth, limits.MaxOps},
		{"EventBacklog", cfg.EventBacklog, math.MaxInt},
		{"Protocol.SendQueue", p.SendQueue, limits.MaxSQ},
		{"Protocol.RecvQueue", p.RecvQueue, limits.MaxRQ},
		{"Protocol.Credits", p.Credits, math.MaxInt},
		{"Protocol.RecvWindow", p.RecvWindow, math.MaxInt},
		{"Protocol.DetachLimit", p.DetachLimit, math.MaxInt},
		{"Protocol.ReadSegment", p.ReadSegment, math.MaxInt},
		{"Protocol.RuntSize", p.RuntSize, math.MaxInt},
		{"Protocol.PeerMemory", int(p.PeerMemory), math.MaxInt},
		{"Protocol.TotalMemory", int(p.TotalMemory), math.MaxInt},
		{"Protocol.RNRInitial", int(p.RNRInitial), math.MaxInt},
		{"Protocol.RNRMax", int(p.RNRMax), math.MaxInt},
		{"Protocol.ProbeAfter", int(p.ProbeAfter), math.MaxInt},
		{"Protocol.PeerTimeout", int(p.PeerTimeout), math.MaxInt},
	} {
		bad(x.v < 0, ErrInvalid, "%s is %d, must not be negative", x.name, x.v)
		bad(x.v > x.most, ErrInvalid, "%s is %d, at most %d", x.name, x.v, x.most)
	}
	bad(p.RNRRetry > 7, ErrInvalid, "Protocol.RNRRetry is %d, at most 7", p.RNRRetry)
	_, known := era.ByName(knobs.Era)
	bad(knobs.Era != "" && !known, ErrInvalid, "Era is %q, which is no release", knobs.Era)
	return errors.Join(errs...)
}
