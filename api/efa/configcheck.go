package efa

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/errtext"
)

// defaultRQ is the default of ProtocolConfig.RecvQueue.
const defaultRQ = 256

// maxName is the most bytes of EndpointConfig.Name.
const maxName = 64

// printable reports whether an endpoint may have the name.
func printable(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (cfg *EndpointConfig) check(d *Domain) error {
	p, knobs := &cfg.Protocol, cfg.Protocol.Knobs()
	var errs []error
	bad := func(cond bool, err error, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...)))
		}
	}
	bad(!printable(cfg.Name), ErrInvalid, "Name is %q, want at most %d bytes of UTF-8 that print", cfg.Name, maxName)
	bad(cfg.AV != nil && cfg.AV.dom != d, ErrDomain, "the address vector is another domain's")
	for _, q := range []*Queue{cfg.SendQueue, cfg.RecvQueue} {
		bad(q != nil && q.dom != d, ErrDomain, "the queue is another domain's")
	}
	for _, n := range cfg.counters() {
		bad(n != nil && n.dom != d, ErrDomain, "the counter is another domain's")
	}
	if err := cfg.Arrivals.check(); err != nil {
		errs = append(errs, err)
	}
	bad(cfg.Datagram && cfg.Arrivals != nil, ErrNotSupported, "Arrivals with Datagram, which has no writes")
	bad((cfg.Direct || cfg.Datagram) && (cfg.RMAEvents || cfg.RemoteReadCounter != nil), ErrNotSupported,
		"RMAEvents and RemoteReadCounter with Direct: the devices carry out all accesses")
	if err := cfg.RecvPool.check(d, cfg); err != nil {
		errs = append(errs, err)
	}
	bad(cfg.ZeroCopyRecv && (cfg.Direct || cfg.Datagram || cfg.RecvPool != nil), ErrNotSupported, "ZeroCopyRecv with Direct or RecvPool")
	bad(cfg.ZeroCopyRecv && !d.fab.dev.Info().UserRecv, ErrNotSupported, "ZeroCopyRecv on %s", d.fab.Name())
	bad(cfg.Level > Delivered, ErrInvalid, "there is no completion level %d", cfg.Level)
	bad(cfg.Order&^settings.AllOrders != 0, ErrInvalid, "there is no order %#x", uint16(cfg.Order&^settings.AllOrders))
	bad(cfg.Order != 0 && (cfg.Direct || cfg.Datagram), ErrNotSupported, "an endpoint without the protocol has no Order")
	limits := d.Limits()
	for _, x := range []struct {
		name    string
		v, most int
	}{
		{"TxDepth", cfg.TxDepth, limits.MaxOps},
		{"RxDepth", cfg.RxDepth, limits.MaxOps},
		{"EventBacklog", cfg.EventBacklog, math.MaxInt},
		{"MinMultiRecv", cfg.MinMultiRecv, math.MaxInt},
		{"NextMemory", cfg.NextMemory, math.MaxInt},
		{"Protocol.SendQueue", p.SendQueue, limits.MaxSQ},
		{"Protocol.RecvQueue", p.RecvQueue, limits.MaxRQ},
		{"Protocol.Refill", p.Refill, max(cmp.Or(p.RecvQueue, min(defaultRQ, limits.MaxRQ))/2, 1)},
		{"Protocol.Credits", p.Credits, settings.MaxCredits},
		{"Protocol.MaxStrangers", p.MaxStrangers, settings.MaxStrangers},
		{"Protocol.RecvWindow", p.RecvWindow, settings.MaxRecvWindow},
		{"Protocol.DetachLimit", p.DetachLimit, math.MaxInt},
		{"Protocol.ReadSegment", p.ReadSegment, cmp.Or(limits.MaxRDMA, math.MaxInt)},
		{"Protocol.RuntSize", p.RuntSize, math.MaxInt},
		{"Protocol.PeerMemory", int(p.PeerMemory), settings.MaxMemory},
		{"Protocol.TotalMemory", int(p.TotalMemory), settings.MaxMemory},
		{"Protocol.RNRInitial", int(p.RNRInitial), math.MaxInt},
		{"Protocol.RNRMax", int(p.RNRMax), math.MaxInt},
		{"Protocol.ProbeAfter", int(p.ProbeAfter), math.MaxInt},
		{"Protocol.PeerTimeout", int(p.PeerTimeout), math.MaxInt},
	} {
		bad(x.v < 0, ErrInvalid, "%s is %d, must not be negative", x.name, x.v)
		bad(x.v > x.most, ErrInvalid, "%s is %d, at most %d", x.name, x.v, x.most)
	}
	bad(p.RNRRetry > 7, ErrInvalid, "Protocol.RNRRetry is %d, at most 7", p.RNRRetry)
	cfg.checkCaps(bad)
	_, known := era.ByName(knobs.Era)
	bad(knobs.Era != "" && !known, ErrInvalid, "Era is %q, which is no release", knobs.Era)
	return errtext.Join(errs...)
}
