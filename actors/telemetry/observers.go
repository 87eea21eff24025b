package telemetry

import (
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/efactor/efactor/actors/ope"
)

// kinds are the requests that become operations.
var kinds = []struct {
	name string
	of   []ope.Kind
}{
	{spanSend, []ope.Kind{ope.KindSend}},
	{spanReceive, []ope.Kind{ope.KindRecv, ope.KindTake}},
	{spanWrite, []ope.Kind{ope.KindWrite}},
	{spanRead, []ope.Kind{ope.KindRead}},
	{spanAtomic, []ope.Kind{ope.KindAtomic}},
}

// byOperation reports a number for each name.
func byOperation(o observe, get func(ope.Kind) uint64, attrs ...attribute.KeyValue) {
	for _, k := range kinds {
		var sum uint64
		for _, kind := range k.of {
			sum += get(kind)
		}
		o(int64(sum), append(slices.Clone(attrs), attrOperation.String(k.name))...)
	}
}

// messages counts the completed requests of some kinds.
func messages(name string, of ...ope.Kind) func(*totals, observe) {
	return func(t *totals, o observe) {
		var sum uint64
		for _, k := range of {
			sum += t.Tally.OK[k] + t.Tally.Failed[k]
		}
		o(int64(sum), attrSystem.String(system), attrOperation.String(name))
	}
}

func (t *totals) operations(o observe) {
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.OK[k] }, attrOutcome.String("ok"))
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.Failed[k] }, attrOutcome.String("failed"))
}

func (t *totals) moved(o observe) {
	byOperation(o, func(k ope.Kind) uint64 { return t.Tally.Bytes[k] })
}

func (t *totals) failures(o observe) {
	for _, name := range slices.Sorted(maps.Keys(t.Tally.Errors)) {
		o(int64(t.Tally.Errors[name]), attrErrorType.String(name))
	}
}

func (t *totals) mixture(o observe) {
	for p := ope.ProtoNone + 1; p < ope.NumProtos; p++ {
		name := attrProtocol.String(p.String())
		if n := t.Mix.Chosen[p]; n > 0 {
			o(int64(n), name, direction(false))
		}
		if n := t.Mix.Served[p]; n > 0 {
			o(int64(n), name, direction(true))
		}
	}
}

func (t *totals) packets(o observe) {
	for i := range t.Counters.PacketsSent {
		if n := t.Counters.PacketsSent[i] + t.Queue.ResentTypes[i]; n > 0 {
			o(int64(n), packetType(uint8(i)), direction(false))
		}
		if n := t.Counters.PacketsRecv[i]; n > 0 {
			o(int64(n), packetType(uint8(i)), direction(true))
		}
	}
}

func (t *totals) handshakes(o observe) {
	o(int64(t.Counters.HandshakesSent), direction(false))
	o(int64(t.Counters.HandshakesRecv), direction(true))
}

func (t *totals) drops(o observe) {
	c := &t.Counters
	for _, x := range []struct {
		reason string
		n      uint64
	}{
		{"short", c.BadShort},
		{"type", c.BadType},
		{"version", c.BadVersion},
		{"length", c.BadLength},
		{"id", c.BadID},
		{"no_room", c.NoRoom},
		{"msg_id", c.StaleMsgID},
		{"aborted", c.AbortedLate},
		{"connid", c.StaleConnID},
		{"no_address", c.NoAddress},
		{"crowded", c.Crowded},
		{"peer_down", c.PeerDown},
		{"refused", c.Refused},
	} {
		o(int64(x.n), attrReason.String(x.reason))
	}
}

// queue is the entries of a queue, or how many there may be.
type queue struct {
	name string
	n    int64
}

func (t *totals) depths(o observe) {
	d := &t.Depths
	eachQueue(o, []queue{
		{"send", d.SendQueue},
		{"tx", d.Tx},
		{"rx", d.Rx},
		{"posted", d.Posted},
		{"unexpected", d.Unexpected},
		{"completion", d.Completions},
	})
}

func (t *totals) capacities(o observe) {
	m := &t.Depths.Most
	eachQueue(o, []queue{{"send", m.SendQueue}, {"tx", m.Tx}, {"rx", m.Rx}, {"completion", m.Completions}})
}

func eachQueue(o observe, queues []queue) {
	for _, x := range queues {
		o(x.n, attrQueue.String(x.name))
	}
}
