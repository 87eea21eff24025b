package wireshark_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

// packet is a record and its links, which a test finds by searching back from each
// packet for the latest that fits.
type packet struct {
	frame  int
	rec    tap.Record
	pkt    wire.Packet
	data   int     // bytes
	first  *packet // the same packet at its other end, if that was recorded before
	copy   *packet // the same if it was recorded after
	repost *packet

	request *packet // nil if it is one itself
	to      *packet // what it answers
	in      []*packet
	parts   []*packet // of a request's message
}

// begin is the packet that began the operation.
func (p *packet) begin() *packet {
	if p.request != nil {
		return p.request
	}
	return p
}

// between reports whether two packets went the same way.
func (p *packet) between(from, to wire.RawAddr) bool {
	return [18]byte(p.rec.From[:]) == [18]byte(from[:]) && [18]byte(p.rec.To[:]) == [18]byte(to[:])
}

// oracle works out the packets of a session, in which no ids are used again.
type oracle struct {
	t     *testing.T
	all   []*packet
	prior []*packet            // neither copies nor reposts
	open  map[string][]*packet // seen at one end, by the ids that both have in common
	last  map[string]*packet   // the latest that wasn't a repost
}

func workOut(t *testing.T, records []tap.Record) []*packet {
	t.Helper()
	o := &oracle{t: t, open: map[string][]*packet{}, last: map[string]*packet{}}
	for i, r := range records {
		pkt, n, err := wire.Decode(r.Packet)
		require.NoError(t, err)
		o.add(&packet{frame: i + 1, rec: r, pkt: pkt, data: len(r.Packet) - n})
	}
	return o.all
}

func (o *oracle) add(p *packet) {
	o.all = append(o.all, p)
	key := string(p.rec.From[:18]) + string(p.rec.To[:]) + string(p.rec.Packet)
	if open := o.open[key]; len(open) > 0 && open[0].rec.Out != p.rec.Out {
		p.first = open[0]
		p.first.copy = p
		o.open[key] = open[1:]
		return
	}
	o.open[key] = append(o.open[key], p)
	if before := o.last[key]; before != nil && !another(p, before) {
		p.repost = before
		if p.pkt.Type() != wire.TypeHandshake { // it's of no operation
			p.request = before.begin()
		}
		return
	}
	o.last[key] = p
	o.link(p)
	o.prior = append(o.prior, p)
	if p.to != nil {
		p.to.in = append(p.to.in, p)
	}
	switch p.pkt.(type) {
	case *wire.EagerRTM, *wire.EagerRTW, *wire.RTA, *wire.ATOMRSP:
	default:
		if p.data > 0 {
			b := p.begin()
			b.parts = append(b.parts, p)
		}
	}
}

// another reports whether a packet that looks like one before is a new one: a CTS
// after an answer to the former one grants more, and EAGER_RTW has no id by which it
// could be recognized.
func another(p, before *packet) bool {
	switch p.pkt.Type() {
	case wire.TypeCTS:
		return len(before.in) > 0
	case wire.TypeEagerRTW:
		return true
	default:
		return false
	}
}

// back finds the latest packet for which fn holds, of those to p's sender from p's
// receiver, or, if same, of those that went p's way.
func (o *oracle) back(p *packet, same bool, fn func(q *packet) bool) *packet {
	from, to := p.rec.To, p.rec.From
	if same {
		from, to = to, from
	}
	for i := len(o.prior) - 1; i >= 0; i-- {
		if q := o.prior[i]; q.between(from, to) && fn(q) {
			return q
		}
	}
	return nil
}

// ids are those of a packet that it brings up or names, -1 for none.
type ids struct{ send, recv, msg int64 }

func idsOf(p wire.Packet) ids {
	switch p := p.(type) {
	case *wire.EagerRTM:
		return ids{dcOnly(p.DC, p.SendID), -1, int64(p.MsgID)}
	case *wire.MediumRTM:
		return ids{dcOnly(p.DC, p.SendID), -1, int64(p.MsgID)}
	case *wire.LongCTSRTM:
		return ids{int64(p.SendID), -1, int64(p.MsgID)}
	case *wire.LongReadRTM:
		return ids{int64(p.SendID), -1, int64(p.MsgID)}
	case *wire.RuntReadRTM:
		return ids{int64(p.SendID), -1, int64(p.MsgID)}
	case *wire.EagerRTW:
		return ids{dcOnly(p.DC, p.SendID), -1, -1}
	case *wire.LongCTSRTW:
		return ids{int64(p.SendID), -1, -1}
	case *wire.LongReadRTW:
		return ids{int64(p.SendID), -1, -1}
	case *wire.RTR:
		return ids{-1, int64(p.RecvID), -1}
	case *wire.RTA:
		return ids{dcOnly(p.Kind == wire.RTADCWrite, p.SendID), dcOnly(p.Kind != wire.RTADCWrite, p.RecvID), int64(p.MsgID)}
	case *wire.CTS:
		return ids{int64(p.SendID), int64(p.RecvID), -1}
	case *wire.CTSData:
		return ids{-1, int64(p.RecvID), -1}
	case *wire.READRSP:
		return ids{int64(p.SendID), int64(p.RecvID), -1}
	case *wire.ATOMRSP:
		return ids{-1, int64(p.RecvID), -1}
	case *wire.EOR:
		return ids{int64(p.SendID), -1, -1}
	case *wire.ReadNACK:
		return ids{int64(p.SendID), -1, -1}
	case *wire.Receipt:
		return ids{int64(p.TxID), -1, -1}
	}
	return ids{-1, -1, -1}
}

func dcOnly(dc bool, id uint32) int64 {
	if dc {
		return int64(id)
	}
	return -1
}

// link finds the packet that p answers or belongs to.
func (o *oracle) link(p *packet) {
	id, typ := idsOf(p.pkt), p.pkt.Type()
	req := func(q *packet) bool { return q.pkt.Type().IsREQ() }
	bySend := func(q *packet) bool { return req(q) && idsOf(q.pkt).send == id.send }
	byRecv := func(q *packet) bool { return req(q) && idsOf(q.pkt).recv == id.recv }
	switch pkt := p.pkt.(type) {
	case *wire.Handshake:
		for _, q := range o.prior {
			if q.between(p.rec.To, p.rec.From) {
				p.to = q
				return
			}
		}
		return
	case *wire.CTS:
		if pkt.EmulatedRead {
			p.to = o.back(p, false, func(q *packet) bool { return q.pkt.Type() == wire.TypeREADRSP && idsOf(q.pkt).send == id.send })
		} else {
			p.to = o.back(p, false, bySend)
		}
	case *wire.CTSData:
		p.to = o.back(p, false, func(q *packet) bool {
			return (q.pkt.Type() == wire.TypeCTS || q.pkt.Type().IsRTR()) && idsOf(q.pkt).recv == id.recv
		})
	case *wire.READRSP, *wire.ATOMRSP:
		p.to = o.back(p, false, byRecv)
	case *wire.EOR, *wire.ReadNACK, *wire.Receipt:
		p.to = o.back(p, false, bySend)
		switch p.to.pkt.(type) { // of several segments, the first
		case *wire.MediumRTM, *wire.RuntReadRTM:
			p.to = p.to.begin()
		}
	case *wire.LongCTSRTM, *wire.LongCTSRTW:
		p.to = o.back(p, false, func(q *packet) bool { return q.pkt.Type() == wire.TypeReadNACK && idsOf(q.pkt).send == id.send })
		if p.to != nil {
			p.request = p.to.begin()
		}
		return
	default:
		before := o.back(p, true, func(q *packet) bool { return q.pkt.Type() == typ && idsOf(q.pkt).msg == id.msg })
		if id.msg >= 0 && before != nil {
			p.request = before.begin()
		}
		return
	}
	require.NotNil(o.t, p.to, "%s", wiretext.Summary(p.rec.Packet))
	p.request = p.to.begin()
}

// linkFields are what TestSession compares, as expect writes them.
var linkFields = []string{
	"request", "response_to", "response_in", "repost_of", "copy_of", "copy_in", "message.segment", "message.missing", "time",
	"malformed", "no_request", "beyond_message",
}

func expect(p *packet) []string {
	frames := func(list ...*packet) string {
		var words []string
		for _, q := range list {
			if q != nil {
				words = append(words, fmt.Sprint(q.frame))
			}
		}
		return strings.Join(words, ",")
	}
	q := p
	if p.first != nil {
		q = p.first
	}
	missing, elapsed, parts := "", "", ""
	if len(q.begin().parts) > 0 {
		missing = "0"
	}
	if q.request == nil {
		parts = frames(q.parts...)
	}
	if q.to != nil {
		ns := int64(p.rec.Time - q.to.rec.Time)
		elapsed = fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9)
	}
	return []string{
		frames(q.request), frames(q.to), frames(q.in...), frames(q.repost), frames(p.first), frames(p.copy), parts, missing, elapsed,
		"", "", "",
	}
}

// TestSession compares links in mixed traffic with those that the test works out,
// in captures of each side and of both.
func TestSession(t *testing.T) {
	for seed := range uint64(2) {
		one, other, both := session(t, seed)
		for _, rec := range [][]*recording{{one, both}, {other}}[seed] {
			var names []string
			for _, name := range linkFields {
				names = append(names, "efa_rdm."+name)
			}
			rows := columns(t, rec.save(), "efa_rdm", append(names, "efa_rdm.stream")...)
			packets := workOut(t, rec.records)
			require.Len(t, rows, len(packets))
			reposts, streams := 0, map[string]bool{}
			for i, p := range packets {
				require.Equal(t, expect(p), rows[i][:len(linkFields)], "frame %d, %s", i+1, wiretext.Summary(p.rec.Packet))
				if p.repost != nil {
					reposts++
				}
				streams[rows[i][len(linkFields)]] = true
			}
			require.Greater(t, reposts, 50)
			require.Equal(t, map[string]bool{"0": true, "1": true}, streams)
		}
	}
}
