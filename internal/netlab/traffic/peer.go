package traffic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	window    = 24      // packets outstanding to a host
	lastBlock = 1 << 40 // number of the block that each slot ends with
	patience  = 20 * time.Millisecond
)

// peer is another host, with the load for it.
type peer struct {
	h    *host
	no   int
	at   Place
	ah   device.AH
	rnd  *rand.Rand
	seen *Seen

	sent     []bool // by number
	requests map[uint32]*request
	nextID   uint32
	posted   int // packets and RDMA requests so far
	packets  int // outstanding
	blocks   int // numbers of blocks so far
	busy     [slots + 1]bool
	final    [slots]bool // the slot holds its last block

	down  bool
	retry clock.Time
	old   int // outstanding since before it went down
}

type request struct {
	kind   device.WR
	number int
	slot   int
	at     clock.Time
	buf    []byte
	old    bool
}

func newPeer(h *host, no int, at Place, ah device.AH) *peer {
	h.seen[no].Failed = map[string]int{}
	return &peer{
		h: h, no: no, at: at, ah: ah, requests: map[uint32]*request{},
		rnd:  rand.New(rand.NewPCG(uint64(h.Seed), uint64(h.Host)<<8|uint64(no))),
		seen: &h.seen[no],
	}
}

// over: no new load, only the last blocks.
func (p *peer) over() bool { return p.h.stopping || p.h.Count > 0 && p.posted >= p.h.Count }

func (p *peer) finished() bool {
	return p.over() && len(p.requests) == 0 && p.final == [slots]bool{true, true, true, true}
}

// post posts what the window allows; to a host that is down one request at a time.
func (p *peer) post() (posted bool, err error) {
	for {
		r, wr := p.next()
		if r == nil {
			return posted, nil
		}
		p.nextID++
		wr.ID = uint64(p.no)<<32 | uint64(p.nextID)
		wr.AH, wr.QPN, wr.QKey, wr.RKey = p.ah, p.at.QPN, p.at.QKey, p.at.RKey
		err := p.h.qp.PostSend(wr)
		if errors.Is(err, device.ErrQueueFull) {
			return posted, nil
		}
		if err != nil {
			return posted, err
		}
		r.at = clock.System.Now()
		p.requests[p.nextID] = r
		if r.kind == device.WRSend {
			p.packets++
			p.sent = append(p.sent, false)
		} else {
			p.busy[r.slot] = true
			p.blocks++
		}
		p.posted++
		posted = true
	}
}

// next is a request that may be posted now.
func (p *peer) next() (*request, *device.SendWR) {
	if p.down && (len(p.requests) > 0 || clock.System.Now() < p.retry) {
		return nil, nil
	}
	over := p.over()
	for s := range slots {
		if !p.busy[s] && p.h.dev.Info().RDMAWrite && (over && !p.final[s] || !over && p.rnd.IntN(8) == 0) {
			number := p.blocks
			if over {
				number = lastBlock + s
			}
			r := &request{kind: device.WRWrite, number: number, slot: s, buf: fill(make([]byte, p.h.Block), tag(p.h.Host, p.no, number))}
			wr := &device.SendWR{Kind: device.WRWrite, Payload: r.buf, Remote: p.at.Base + uint64(p.h.block(p.h.Host, s))}
			wr.HasImm, wr.Imm = number%2 == 0, uint32(number)
			return r, wr
		}
	}
	if over {
		return nil, nil
	}
	if !p.busy[slots] && p.h.dev.Info().RDMARead && p.rnd.IntN(8) == 0 {
		r := &request{kind: device.WRRead, slot: slots, buf: make([]byte, p.h.Block)}
		return r, &device.SendWR{Kind: device.WRRead, Payload: r.buf, Remote: p.at.Base + uint64(p.h.Hosts*slots*p.h.Block)}
	}
	if p.packets >= window {
		return nil, nil
	}
	size := 8 + p.rnd.IntN(p.h.Max-7)
	r := &request{kind: device.WRSend, number: len(p.sent), buf: fill(make([]byte, size), tag(p.h.Host, p.no, len(p.sent)))}
	return r, &device.SendWR{Kind: device.WRSend, Header: r.buf[:8], Payload: r.buf[8:]}
}

// ended: a request has its outcome.
func (p *peer) ended(id uint32, st device.Status) error {
	r := p.requests[id]
	if r == nil {
		return fmt.Errorf("completion of request %d to host %d, which is none", id, p.no)
	}
	delete(p.requests, id)
	if r.kind == device.WRSend {
		p.packets--
	} else {
		p.busy[r.slot] = false
	}
	if st != device.StatusOK {
		p.h.max = max(p.h.max, clock.System.Now().Sub(r.at))
		return p.failed(r, st)
	}
	switch r.kind {
	case device.WRSend:
		p.sent[r.number] = true
	case device.WRWrite:
		p.seen.Writes++
		if r.number >= lastBlock {
			p.final[r.slot] = true
		}
	case device.WRRead:
		p.seen.Reads++
		if t, ok := tagOf(r.buf, p.h.scratch); !ok || t != tag(p.no, p.no, 0) {
			p.seen.Corrupt++
		}
	}
	if p.down && !r.old {
		p.down = false
		return p.h.out.Encode(answer{Down: &Down{Host: p.no, Up: true}})
	}
	return p.wasOld(r, st)
}

// failed: from the first failure on only one request at a time is tried.
func (p *peer) failed(r *request, st device.Status) error {
	p.seen.Failed[st.String()]++
	if !st.Gone() {
		return fmt.Errorf("request to host %d: %v", p.no, st)
	}
	p.retry = clock.System.Now().Add(patience)
	if p.down {
		return p.wasOld(r, st)
	}
	p.down, p.old = true, 0
	for _, o := range p.requests {
		o.old = true
		p.old++
	}
	r.old = true
	p.old++
	return p.wasOld(r, st)
}

// wasOld counts down what was outstanding when the host went down.
func (p *peer) wasOld(r *request, st device.Status) error {
	if !r.old {
		return nil
	}
	if p.old--; p.old > 0 {
		return nil
	}
	return p.h.out.Encode(answer{Down: &Down{Host: p.no, Status: st.String()}})
}
