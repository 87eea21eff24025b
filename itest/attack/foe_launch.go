package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/runtime/clock"
)

// ranks of a job that meets while strangers call.
const ranks = 3

// launch runs the attack on the rendezvous, in a process of its own.
func (c *conductor) launch(ctx context.Context) {
	r := c.role
	r.Is = "launch"
	p, err := begin(r, 0)
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	defer p.kill()
	go func() { <-ctx.Done(); _ = p.in.Close() }()
	n, err := p.await("report", c.For+time.Minute, func(n *news) bool { return n.Closed })
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	c.row.add(n.Report, "steady")
}

// lobby is a rendezvous and those who disturb it.
type lobby struct {
	role
	w     *watch
	calls atomic.Uint64
	mu    sync.Mutex
	kinds map[string]uint64
}

// runLaunch has jobs meet, one after the other, each at a port where strangers call before,
// during and after.
func runLaunch(r role, out *line) error {
	l := &lobby{role: r, w: newWatch(), kinds: map[string]uint64{}}
	before := held()
	ctx, cancel := context.WithTimeout(context.Background(), r.For)
	defer cancel()
	go l.w.look(ctx, l.PeerTimeout, func(clock.Time) {})
	for round := uint64(0); ctx.Err() == nil; round++ {
		l.round(round)
	}
	<-ctx.Done()
	if text := leaked(before); text != "" {
		l.w.wrong("%s", text)
	}
	m := l.w.report()
	m.Connections, m.Kinds = l.calls.Load(), l.kinds
	out.say(news{Closed: true, Report: m})
	return nil
}

// round is one job: rank 0, strangers, and then the other ranks.
func (l *lobby) round(n uint64) {
	port, err := freeport.Find()
	if err != nil {
		l.w.wrong("%v", err)
		return
	}
	at := fmt.Sprintf("127.0.0.1:%d", port)
	var key []byte
	if n%2 == 1 {
		key = secret
	}
	ctx, cancel := context.WithCancel(context.Background())
	var foes, all sync.WaitGroup
	for i := range uint64(3) {
		foes.Add(1)
		go func() { defer foes.Done(); l.call(ctx, at, rand.New(rand.NewPCG(l.Seed, n<<8|i))) }()
	}
	join := func(rank int) {
		defer all.Done()
		cfg := launch.Config{
			Size: ranks, Rank: rank, Rendezvous: at, Job: "attacked", Secret: key, Timeout: 20 * time.Second,
			LocalSize: ranks, LocalRank: rank, Logger: slog.New(slog.DiscardHandler),
		}
		// Rank 0 waits for the others, who are late on purpose: its wait is not the foes' doing.
		c := l.w.begin(fmt.Sprintf("rank %d joining", rank), 2*l.Steady, rank != 0)
		job, err := launch.Join(ctx, cfg)
		if c.end(err) != nil {
			return
		}
		for range 3 {
			c = l.w.begin(fmt.Sprintf("rank %d gathering", rank), l.Steady, true)
			values, err := job.Allgather(ctx, []byte{byte(rank)})
			for i := range values {
				if len(values[i]) != 1 || values[i][0] != byte(i) {
					err = errors.Join(err, fmt.Errorf("%w: rank %d's value is %x", errGarbled, i, values[i]))
				}
			}
			if c.end(err) != nil {
				break
			}
		}
		c = l.w.begin(fmt.Sprintf("rank %d closing", rank), l.Steady, true)
		_ = c.end(job.Close())
	}
	all.Add(ranks)
	go join(0)
	_ = pause(ctx, 300*time.Millisecond)
	for rank := 1; rank < ranks; rank++ {
		go join(rank)
	}
	all.Wait()
	cancel()
	foes.Wait()
}

// call disturbs the rendezvous until ctx ends.
func (l *lobby) call(ctx context.Context, at string, rng *rand.Rand) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	hello := func(version uint16, rank, size uint32, job string) []byte {
		b := append([]byte("xxxx\x01efactor-join"), binary.BigEndian.AppendUint16(nil, version)...)
		b = binary.BigEndian.AppendUint32(b, rank)
		b = append(binary.BigEndian.AppendUint32(b, size), job...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	for n := rng.IntN(9); pause(ctx, time.Duration(rng.IntN(2000))*time.Microsecond) == nil; n++ {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(clock.Deadline(time.Second))
		noise := make([]byte, rng.IntN(300))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		what := [...]string{"silent", "silent", "version", "job", "size", "half hello", "garbage", "tls", "long"}[n%9]
		switch what {
		case "version":
			_, _ = c.Write(hello(uint16(2+rng.IntN(1000)), 1, ranks, "attacked"))
		case "job":
			_, _ = c.Write(hello(1, 1, ranks, "another"))
		case "size":
			_, _ = c.Write(hello(1, rng.Uint32N(10), 1+rng.Uint32(), "another"))
		case "half hello":
			h := hello(1, 1, ranks, "attacked")
			_, _ = c.Write(h[:1+rng.IntN(len(h)-1)])
		case "garbage":
			_, _ = c.Write(noise)
		case "long":
			_, _ = c.Write(binary.BigEndian.AppendUint32(nil, rng.Uint32()))
		case "tls":
			_ = c.SetDeadline(clock.Deadline(20 * time.Millisecond))
			_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
		}
		l.calls.Add(1)
		l.mu.Lock()
		l.kinds[what]++
		l.mu.Unlock()
		if held = append(held, c); len(held) > 300 || rng.IntN(3) == 0 {
			i := rng.IntN(len(held))
			_ = held[i].Close()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
}
