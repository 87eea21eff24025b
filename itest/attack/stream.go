package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
)

const (
	longest    = 1 << 20
	visitorTag = 1 << 32
	batch      = 4 // posted sends at a time
)

// sizes of messages: eager, medium, long by CTS or read.
func sizeOf(rng *rand.Rand) int {
	switch n := rng.IntN(20); {
	case n < 11:
		return headLen + rng.IntN(200)
	case n < 15:
		return headLen + rng.IntN(8<<10)
	case n < 18:
		return 8<<10 + rng.IntN(56<<10)
	case n < 19:
		return 64<<10 + rng.IntN(200<<10)
	default:
		return 300<<10 + rng.IntN(longest-300<<10)
	}
}

// send sends messages to o until it is replaced or everything stops.
func (p *peer) send(o *other) {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(p.Index)<<32|uint64(o.Index)<<16|uint64(p.Life)))
	bufs := make([][]byte, batch)
	for i := range bufs {
		bufs[i] = make([]byte, longest)
		for j := range bufs[i] {
			bufs[i][j] = byte(j * (i + 3))
		}
	}
	if (p.Index+1)%steadyPeers == o.Index {
		bufs[0] = p.own.Bytes() // one sender alone uses it
	}
	for o.ctx.Err() == nil {
		var err error
		switch {
		case rng.IntN(3) == 0 && o.Is != "victim" && p.Is != "victim":
			err = p.posted(o, rng, bufs)
		default:
			err = p.blocking(o, rng, bufs[0])
		}
		gap := time.Duration(rng.IntN(2)) * time.Millisecond
		if err != nil {
			gap = 50 * time.Millisecond
		}
		if gap > 0 {
			_ = pause(o.ctx, gap)
		}
	}
}

// next is a new message in b.
func (o *other) next(b []byte, size int) []byte {
	o.log.Stream.seal(b[:size], o.log.N)
	o.log.N++
	return b[:size]
}

// ended notes the outcome of message seq.
func (o *other) ended(seq uint64, err error) error {
	if err != nil {
		o.log.Failed = append(o.log.Failed, seq)
	}
	return err
}

// what names a call for people.
func (p *peer) what(o *card, format string, args ...any) string {
	return fmt.Sprintf("%s %d to %s %d: ", p.Is, p.Index, o.Is, o.Index) + fmt.Sprintf(format, args...)
}

// blocking sends one message and waits; some are canceled, at any time.
func (p *peer) blocking(o *other, rng *rand.Rand, b []byte) error {
	msg := o.next(b, sizeOf(rng))
	seq := o.log.N - 1
	var opts []efa.OpOption
	delivered := rng.IntN(3) == 0
	if delivered {
		opts = append(opts, efa.Complete(efa.Delivered))
	}
	ctx, cancel := p.patience(&o.card)
	canceled := rng.IntN(16) == 0
	if canceled {
		cancel()
		ctx, cancel = context.WithTimeout(p.ctx, time.Duration(rng.IntN(300))*time.Microsecond)
	}
	defer func() { cancel() }()
	c := p.w.begin(p.what(&o.card, "send of %d bytes", len(msg)), p.bound(&o.card), p.steadyWith(&o.card))
	err := p.ep.SendTag(ctx, o.to, uint64(p.Index), msg, opts...)
	if canceled && errors.Is(err, context.DeadlineExceeded) {
		_ = c.end(nil)
		_ = o.ended(seq, err)
		return nil
	}
	switch {
	case err != nil && o.Is == "mortal":
		p.out.say(news{Failed: &o.Index})
	case err == nil && delivered && o.Is == "steady" && p.back.answered(o.Index, c.begun):
		p.out.say(news{Back: true})
	}
	return o.ended(seq, c.end(err))
}

// posted sends a few messages at once.
func (p *peer) posted(o *other, rng *rand.Rand, bufs [][]byte) (err error) {
	type one struct {
		op  *efa.Op
		seq uint64
		c   *call
	}
	var ops []one
	for _, b := range bufs[:1+rng.IntN(batch)] {
		msg := o.next(b, sizeOf(rng))
		c := p.w.begin(p.what(&o.card, "posted send of %d bytes", len(msg)), p.bound(&o.card), p.steadyWith(&o.card))
		op, e := p.ep.Start(&efa.SendReq{To: o.to, Buf: msg, Tagged: true, Tag: uint64(p.Index)})
		if e != nil {
			if errors.Is(e, efa.ErrAgain) { // it was not taken
				e = nil
			}
			_ = o.ended(o.log.N-1, errNotSent)
			err = errors.Join(err, c.end(e))
			break
		}
		ops = append(ops, one{op, o.log.N - 1, c})
	}
	for _, x := range ops {
		canceled := rng.IntN(32) == 0
		if canceled {
			x.op.Cancel()
		}
		done, e := x.op.Wait(context.Background())
		if e == nil {
			e = done.Err
		}
		if canceled && errors.Is(e, efa.ErrCanceled) {
			_ = x.c.end(nil)
			_ = o.ended(x.seq, e)
			continue
		}
		err = errors.Join(err, o.ended(x.seq, x.c.end(e)))
	}
	return err
}

var errNotSent = errors.New("not sent")

// inbox is what has come.
type inbox struct {
	mu   sync.Mutex
	got  map[stream]*gotLog
	told [mostPeers]int // receives that failed with their sender
	news chan struct{}  // something has come
}

// receive takes what comes, from each process in turn, and from visitors.
func (p *peer) receive() {
	p.inbox.got = map[stream]*gotLog{}
	p.inbox.news = make(chan struct{}, 1)
	for i := range mostPeers {
		if i != p.Index {
			p.recvs.Add(1)
			go func() { defer p.recvs.Done(); p.receiveFrom(efa.Match{Tag: uint64(i)}, true) }()
		}
	}
	p.recvs.Add(1)
	go func() {
		defer p.recvs.Done()
		p.receiveFrom(efa.Match{Tag: visitorTag, Ignore: 0xffff}, false)
	}()
}

func (p *peer) receiveFrom(m efa.Match, numbered bool) {
	buf := make([]byte, longest)
	for p.ctx.Err() == nil {
		msg, err := p.ep.RecvTag(p.ctx, m, buf)
		switch {
		case p.ctx.Err() != nil:
			return
		case err != nil: // its sender died in the middle of it, and says whether it was one that may
			if m.Tag < steadyPeers && p.Is == "steady" && !p.Resets {
				p.w.fault("%s %d: receive from steady %d: %v", p.Is, p.Index, m.Tag, err)
			}
			if numbered {
				p.inbox.broke(int(m.Tag))
			}
			_ = pause(p.ctx, time.Millisecond)
		case p.Is == "victim": // what comes is anybody's
		default:
			s, seq, err := unseal(buf[:msg.N])
			if err == nil && numbered {
				err = p.inbox.take(s, seq)
			}
			if err != nil {
				p.w.wrong("%s %d: message with tag %#x: %v", p.Is, p.Index, msg.Tag, err)
			}
		}
	}
}

func (in *inbox) broke(from int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.told[from]++
}

func (in *inbox) take(s stream, seq uint64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	g := in.got[s]
	if g == nil {
		g = &gotLog{Stream: s}
		in.got[s] = g
	}
	select {
	case in.news <- struct{}{}:
	default:
	}
	return g.take(seq)
}

// settle waits until what others have sent has come, and says what has.
func (in *inbox) settle(ctx context.Context, expect []gotLog, most time.Duration) news {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !in.complete(expect) && ctx.Err() == nil {
		select {
		case <-in.news:
		case <-ctx.Done():
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	n := news{Settled: true, Broken: in.told[:]}
	for _, g := range in.got {
		n.Got = append(n.Got, *g)
	}
	return n
}

func (in *inbox) complete(expect []gotLog) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range expect {
		if g := in.got[e.Stream]; e.Next > 0 && (g == nil || g.Next < e.Next) {
			return false
		}
	}
	return true
}
