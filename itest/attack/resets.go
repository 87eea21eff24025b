package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	// tcpResets is the device tcp, with resets.
	tcpResets = "tcp+resets"
	// resetRate is how many connections are reset a second.
	resetRate = 2
	// longestReset is the longest message: its reading takes several windows of a connection, so
	// that resets meet requests under way.
	longestReset = 8 << 20
	resetStreams = 3 // from each endpoint to each other
	resetWait    = 30 * time.Second
)

// honest is an endpoint whose connections are reset.
type honest struct {
	ep  *efa.Endpoint
	to  []efa.Addr
	mu  sync.Mutex
	got map[stream]*gotLog
	// told is how many receives have failed with their sender, by its index.
	told map[int]int
}

// resets has two or three honest endpoints send each other messages up to 8 MB over tcp, while
// their connections are reset. All sends end, none that ended well is lost, and when the resets
// are over each endpoint reaches each other one.
func (t *trial) resets() (err error) {
	if err := loopbackUp(); err != nil {
		return err
	}
	all := make([]*honest, 2+t.rng.IntN(2))
	for i := range all {
		all[i] = &honest{got: map[stream]*gotLog{}, told: map[int]int{}}
		if all[i].ep, err = efa.OpenEndpoint(context.Background(), t.setup()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, all[i].ep.Close()) }()
	}
	for i, h := range all {
		for _, o := range all {
			at, err := h.ep.AddressVector().Insert(o.ep.Address())
			if err != nil {
				return fmt.Errorf("endpoint %d: %w", i, err)
			}
			h.to = append(h.to, at)
		}
	}
	s, err := newResetter()
	if err != nil {
		return err
	}
	var resetting sync.WaitGroup
	resetting.Go(func() {
		s.run(t.ctx, rand.New(rand.NewPCG(t.Seed, 1)), resetRate, func() { t.did("reset", 1) })
	})
	receiving, end := context.WithCancel(context.Background())
	var receivers sync.WaitGroup
	for i, h := range all {
		for j := range all {
			for k := range resetStreams {
				if i != j {
					receivers.Go(func() { t.receiveReset(receiving, h, i, uint64(j*resetStreams+k)) })
				}
			}
		}
	}
	sent := t.sendReset(all)
	resetting.Wait()
	err = s.Close()
	t.together(all)
	for _, l := range sent {
		t.judgeReset(all[l.Stream.To], l)
	}
	end()
	receivers.Wait()
	return err
}

// sendReset sends from each endpoint to each other until the time is up.
func (t *trial) sendReset(all []*honest) []*sentLog {
	var sent []*sentLog
	var sending sync.WaitGroup
	for i, h := range all {
		for j := range all {
			for k := range resetStreams {
				if i == j {
					continue
				}
				l := &sentLog{Stream: stream{From: i, To: j, FromLife: k}}
				sent = append(sent, l)
				rng := rand.New(rand.NewPCG(t.Seed, uint64(i<<16|j<<8|k)))
				sending.Go(func() { t.streamReset(h, l, rng) })
			}
		}
	}
	sending.Wait()
	return sent
}

func (t *trial) streamReset(h *honest, l *sentLog, rng *rand.Rand) {
	s := l.Stream
	buf := make([]byte, longestReset)
	for t.ctx.Err() == nil {
		size := headLen + rng.IntN(100)
		if rng.IntN(4) == 0 {
			size = headLen + rng.IntN(longestReset-headLen)
		}
		var opts []efa.OpOption
		if rng.IntN(3) == 0 {
			opts = append(opts, efa.Complete(efa.Delivered))
		}
		s.seal(buf[:size], l.N)
		what := fmt.Sprintf("send of %d bytes from %d to %d", size, s.From, s.To)
		err := t.ends(what, t.mortal(), func(ctx context.Context) error {
			return h.ep.SendTag(ctx, h.to[s.To], uint64(s.From*resetStreams+s.FromLife), buf[:size], opts...)
		})
		if err != nil {
			l.Failed = append(l.Failed, l.N)
			t.did("failed send", 1)
			_ = pause(t.ctx, time.Millisecond)
		} else {
			t.did("sent", 1)
		}
		l.N++
		if errors.Is(err, errHangs) {
			return // the buffer is still the operation's
		}
	}
}

// receiveReset receives one stream.
func (t *trial) receiveReset(ctx context.Context, h *honest, me int, tag uint64) {
	buf := make([]byte, longestReset)
	for ctx.Err() == nil {
		m, err := h.ep.RecvTag(ctx, efa.Match{Tag: tag}, buf)
		if err == nil {
			var s stream
			var seq uint64
			if s, seq, err = unseal(buf[:m.N]); err == nil {
				err = h.take(s, seq)
			}
			if err != nil {
				t.w.wrong("endpoint %d: %v", me, err)
			}
		} else if ctx.Err() == nil {
			t.did("failed receive", 1)
			h.mu.Lock()
			h.told[int(tag)/resetStreams]++
			h.mu.Unlock()
			_ = pause(ctx, time.Millisecond)
		}
	}
}

func (h *honest) take(s stream, seq uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.got[s]
	if g == nil {
		g = &gotLog{Stream: s}
		h.got[s] = g
	}
	return g.take(seq)
}

// together has each endpoint send to each other, now that nothing is reset any more.
func (t *trial) together(all []*honest) {
	began := clock.System.Now()
	for i, h := range all {
		for j := range all {
			if i == j {
				continue
			}
			var err error
			for n := range 40 { // the first ones may fail of what was under way
				s := stream{From: i, To: j, FromLife: 1 << 16}
				b := make([]byte, headLen)
				s.seal(b, uint64(n))
				err = t.ends(fmt.Sprintf("%d to %d, after the resets", i, j), t.mortal(), func(ctx context.Context) error {
					return h.ep.SendTag(ctx, h.to[j], uint64(i*resetStreams), b, efa.Complete(efa.Delivered))
				})
				if err == nil || clock.System.Now().Sub(began) > resetWait {
					break
				}
				_ = pause(context.Background(), 50*time.Millisecond)
			}
			if err != nil {
				t.w.wrong("endpoint %d does not reach %d after the resets: %v; %s", i, j, err, t.peersOf(h.ep))
			}
		}
	}
}

// peersOf is what an endpoint says of its peers, and what it has counted against them.
func (t *trial) peersOf(ep *efa.Endpoint) (text string) {
	ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
	defer cancel()
	s, err := ep.Snapshot(ctx)
	if err != nil {
		return err.Error()
	}
	for _, p := range s.Peers {
		text += fmt.Sprintf("%v is %v, silent for %v (%v); ", p.Address, p.State, p.Silent.Round(time.Millisecond), p.Err)
	}
	return text
}

// judgeReset waits for the rest of a stream, and says what is lost of it.
func (t *trial) judgeReset(h *honest, l *sentLog) {
	ctx, cancel := context.WithTimeout(context.Background(), t.mortal())
	defer cancel()
	look := func() (lost []uint64, told int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		g := h.got[l.Stream]
		if g == nil {
			g = &gotLog{}
		}
		return l.lost(g), h.told[l.Stream.From]
	}
	lost, told := look()
	for len(lost) > told && pause(ctx, 10*time.Millisecond) == nil {
		lost, told = look()
	}
	if len(lost) > told {
		t.w.wrong("stream %+v: of %d messages %d were reported sent and never came, from number %d; %d receives had failed; %s",
			l.Stream, l.N, len(lost), lost[0], told, t.peersOf(h.ep))
	}
}
