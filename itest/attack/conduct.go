package main

import (
	"context"
	"fmt"
	"hash/crc64"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// The legitimate processes by index: steady ones, those that are killed, and the victim.
const (
	steadyPeers = 3
	mortalPeers = 2
	victimIndex = steadyPeers + mortalPeers
	mostPeers   = victimIndex + 1
)

// conductor runs the attack on one device.
type conductor struct {
	role
	rng   *rand.Rand
	calm  bool
	long  bool
	want  []string
	log   io.Writer // progress
	peers [mostPeers]*proc
	qpns  [mostPeers]uint16 // of mortals, in each life
	row   row

	mu   sync.Mutex // of row, while foes come and go
	foes sync.WaitGroup
}

// plan is what to do on one device.
type plan struct {
	device string
	d      time.Duration
	seed   uint64
	calm   bool // without foes
	only   string
	long   bool // with pauses beyond PeerTimeout
	bounds
	want []string // kinds of attacks for which it goes on beyond d, for a minute at most

	command string // a trial; "": processes that are killed and stopped, among foes
	flat    bool   // what steady ones hold must not grow
	resets  bool   // connections are reset; in a network namespace of its own
}

// conduct runs the attack on one device and returns its row of the table.
func conduct(ctx context.Context, pl plan, progress io.Writer) row {
	device := pl.device
	c := &conductor{
		role: role{Device: device, Seed: pl.seed, For: pl.d, Only: pl.only, bounds: pl.bounds}, calm: pl.calm, long: pl.long, want: pl.want,
		rng: rand.New(rand.NewPCG(pl.seed, crc64.Checksum([]byte(device), crc64.MakeTable(crc64.ECMA)))), log: progress,
		row: row{Device: device, Kinds: map[string]uint64{}},
	}
	began := clock.System.Now()
	defer func() {
		_, _ = fmt.Fprintf(c.log, "%-6s %v\n", device, clock.System.Now().Sub(began).Round(time.Millisecond))
	}()
	if pl.command != "" {
		c.Is, c.Apart = pl.command, commandOf(pl.command).apart
		c.row.Device = pl.command + " " + device
		c.trial(ctx)
		c.row.judge(c.PeerTimeout)
		return c.row
	}
	if device == tcpResets {
		c.inside(ctx, pl)
		return c.row
	}
	c.Resets, c.Flat = pl.resets, pl.flat
	if device == "launch" {
		c.launch(ctx)
		c.row.judge(c.PeerTimeout)
		return c.row
	}
	if err := c.setUp(); err != nil {
		c.row.wrong("%v", err)
	} else {
		c.soak(ctx)
		c.finish()
		c.row.judge(c.PeerTimeout)
	}
	for _, p := range c.peers {
		if p != nil && !p.dead() {
			p.kill()
		}
	}
	c.checkFiles()
	return c.row
}

func (c *conductor) is(i int) string {
	switch {
	case i < steadyPeers:
		return "steady"
	case i < victimIndex:
		return "mortal"
	default:
		return "victim"
	}
}

// shares reports whether processes share memory.
func (c *conductor) shares() bool { return c.Device == "shm" || c.Device == "auto" }

// shared is where directories of shared memory are made; "": the usual place.
func shared() string {
	const parent = "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		return ""
	}
	return parent
}

func (c *conductor) setUp() (err error) {
	if c.Dir, err = os.MkdirTemp(shared(), "efactor-attack-"); err != nil {
		return err
	}
	for i := range c.peers {
		if i == victimIndex && !c.shares() {
			continue
		}
		if c.is(i) == "mortal" { // below the ports that the system gives to connections
			c.qpns[i] = uint16(17000 + c.rng.IntN(10000))
		}
		err := c.start(i, 0, c.qpns[i])
		for range 5 {
			if err == nil {
				break
			}
			c.qpns[i]++
			err = c.start(i, 0, c.qpns[i])
		}
		if err != nil {
			return err
		}
		c.introduce(i)
	}
	return nil
}

// start begins life number life of peer i.
func (c *conductor) start(i, life int, qpn uint16) error {
	r := c.role
	r.Is, r.Index, r.Life, r.QPN = c.is(i), i, life, qpn
	p, err := begin(r, 0)
	if err != nil {
		return err
	}
	n, err := p.await("address", 20*time.Second, func(n *news) bool { return n.Card != nil })
	if err != nil {
		p.kill()
		return err
	}
	p.card = n.Card
	c.peers[i] = p
	return nil
}

// introduce makes i and all others known to each other: mortals know steady ones only.
func (c *conductor) introduce(i int) {
	for j, q := range c.peers {
		if p := c.peers[i]; j != i && q != nil && (c.is(i) == "steady" || c.is(j) == "steady") {
			_ = p.orders.Encode(order{Meet: q.card}) // if it has died meanwhile, that shows later
			_ = q.orders.Encode(order{Meet: p.card})
		}
	}
}

// soak lets foes loose, and kills and stops mortals, for the time there is.
func (c *conductor) soak(ctx context.Context) {
	began := clock.System.Now()
	ctx, cancel := context.WithTimeout(ctx, c.For+time.Minute)
	defer c.foes.Wait()
	defer cancel()
	if !c.calm {
		c.letLoose(ctx)
	}
	if err := c.reset(ctx); err != nil {
		c.blame("%v", err)
	}
	away := absence{c: c}
	defer away.wait()
	soon := c.long // so that a short attack has one, too
	for clock.System.Now().Sub(began) < c.For || c.lacks() {
		if pause(ctx, time.Duration(100+c.rng.IntN(400))*time.Millisecond) != nil {
			break
		}
		i := steadyPeers + c.rng.IntN(mortalPeers)
		if away.of(i) {
			i = steadyPeers + (i-steadyPeers+1)%mortalPeers
		}
		switch n := c.rng.IntN(10); {
		case soon || c.long && n == 0 && away.over():
			soon = false
			away.begin(i)
			c.row.Pauses++
		case n < 4:
			c.stopFor(ctx, i, time.Duration(50+c.rng.IntN(900))*time.Millisecond)
		default:
			c.replace(i)
		}
		_, _ = fmt.Fprintf(c.log, "\r%-6s %d kills, %d pauses, %d connections ", c.Device, c.row.Kills, c.row.Pauses, c.connections())
	}
}

func (c *conductor) connections() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.row.Connections
}

func (c *conductor) stopFor(ctx context.Context, i int, d time.Duration) {
	p := c.peers[i].cmd.Process
	_ = p.Signal(syscall.SIGSTOP)
	_ = pause(ctx, d)
	_ = p.Signal(syscall.SIGCONT)
	c.row.Pauses++
}

// replace kills a process and starts its next life, at the same address.
func (c *conductor) replace(i int) {
	old := c.peers[i]
	old.kill()
	c.row.Kills++
	err := c.start(i, old.Life+1, c.qpns[i])
	if err != nil {
		c.blame("%v", err)
		c.peers[i] = old
		return
	}
	c.introduce(i)
}

// finish has all processes stop, compares what they sent and received, and closes them.
func (c *conductor) finish() {
	sent := map[stream]sentLog{}
	all := func(o order, what string, f func(i int, n *news)) {
		for _, p := range c.peers {
			if p != nil && !p.dead() {
				_ = p.orders.Encode(o)
			}
		}
		for i, p := range c.peers {
			if p == nil {
				continue
			}
			n, err := p.await(what, 2*c.mortal(), func(n *news) bool { return n.Stopped || n.Settled || n.Closed })
			if err != nil {
				c.row.wrong("%v", err)
				continue
			}
			f(i, n)
		}
	}
	all(order{Stop: true}, "end of sending", func(_ int, n *news) {
		for _, s := range n.Sent {
			sent[s.Stream] = s
		}
	})
	var expect []gotLog
	for _, s := range sent {
		expect = append(expect, gotLog{Stream: s.Stream, Next: s.lastOK()})
	}
	for i, p := range c.peers {
		if p == nil || p.dead() || p.Is == "victim" {
			continue
		}
		var mine []gotLog
		for _, e := range expect {
			if e.Stream.To == i && e.Stream.ToLife == p.Life && c.is(e.Stream.From) != "victim" {
				mine = append(mine, e)
			}
		}
		_ = p.orders.Encode(order{Settle: true, Expect: mine})
		n, err := p.await("what came", 2*c.mortal(), func(n *news) bool { return n.Settled })
		if err != nil {
			c.row.wrong("%v", err)
			continue
		}
		c.compare(mine, sent, n)
	}
	all(order{Close: true}, "close", func(i int, n *news) { c.row.add(n.Report, c.is(i)) })
}
