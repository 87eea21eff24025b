package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// secret is that of all jobs here.
var secret = []byte("the secret of a job under attack")

// peer is a legitimate process.
type peer struct {
	role
	w      *watch
	out    *line
	fab    *fabric
	dom    *efa.Domain
	av     *efa.AddressVector
	ep     *efa.Endpoint
	mem    *efa.MemoryRegion // offered
	own    *efa.MemoryRegion // what long messages lie in
	others map[int]*other
	inbox  inbox
	back   comeback
	ctx    context.Context
	cancel context.CancelFunc
	recvs  sync.WaitGroup

	samples sampler
}

// other is another legitimate process, in one of its lives.
type other struct {
	card
	to     efa.Addr
	memory efa.Memory
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	log    sentLog
}

// steady reports whether what concerns o has to go well.
func (p *peer) steadyWith(o *card) bool { return p.Is == "steady" && o.Is == "steady" && !p.Resets }

// bound is that of calls that concern o.
func (p *peer) bound(o *card) time.Duration {
	if p.steadyWith(o) {
		return p.Steady
	}
	return p.mortal()
}

// patience is a context for a call that concerns o.
func (p *peer) patience(o *card) (context.Context, context.CancelFunc) {
	if p.Is == "victim" || o.Is == "victim" {
		return context.WithTimeout(p.ctx, victimPatience)
	}
	return p.ctx, func() {}
}

// open is the fabric of a role.
func (r *role) open() (*fabric, error) {
	tcp := efa.TCPConfig{Timeout: r.PeerTimeout}
	switch r.Device {
	case "shm":
		fab, err := efa.Open(efa.Config{DeviceName: "shm:" + r.Dir})
		return &fabric{Fabric: fab}, err
	case "tls":
		tcp.Secret = secret
		fallthrough
	case "tcp":
		tcp.Addr = netip.MustParseAddr("127.0.0.1")
		fab, err := efa.Open(efa.Config{DeviceName: "tcp", TCP: tcp})
		return &fabric{Fabric: fab}, err
	case "auto": // as auto has it, but the odd ones are on a host of their own
		dir := filepath.Join(r.Dir, fmt.Sprint("host", r.Index%2))
		near, err := efa.OpenDevice("shm:" + dir)
		if err != nil {
			return nil, err
		}
		far, err := efa.OpenDevice("tcp:127.0.0.1")
		if err != nil {
			return nil, errors.Join(err, near.Close())
		}
		both, err := efa.JoinDevices(near, far)
		if err != nil {
			return nil, err
		}
		fab, err := efa.Open(efa.Config{Device: both})
		return &fabric{fab, both}, err
	default:
		return nil, fmt.Errorf("%w: no device %q", errUsage, r.Device)
	}
}

// fabric is one with its device, if that is not closed with it.
type fabric struct {
	*efa.Fabric
	dev efa.Device
}

func (f *fabric) Close() error {
	err := f.Fabric.Close()
	if f.dev != nil {
		err = errors.Join(err, f.dev.Close())
	}
	return err
}

// runPeer is such a process, from start to end.
func runPeer(r role, in io.Reader, out *line) error {
	next := make(chan order, 64) // so that the conductor's end is seen while this process waits
	go func() {
		for orders := json.NewDecoder(in); ; {
			var o order
			if orders.Decode(&o) != nil {
				os.Exit(0) // the conductor is gone, whatever this process waits for
			}
			next <- o
		}
	}()
	before := held()
	p := &peer{role: r, w: newWatch(), out: out, others: map[int]*other{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	defer p.cancel()
	if err := p.start(); err != nil {
		return fmt.Errorf("%s %d: %w", r.Is, r.Index, err)
	}
	looking := make(chan struct{})
	go func() { defer close(looking); p.w.look(p.ctx, p.PeerTimeout/2, p.back.begin) }()
	if p.Flat && p.Is == "steady" {
		go p.samples.run(p.ctx)
	}
	name, err := p.mem.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	p.out.say(news{Card: &card{r.Index, r.Life, r.Is, p.ep.Address(), name}})
	for o := range next {
		switch {
		case o.Meet != nil:
			p.meet(o.Meet)
		case o.Stop:
			p.out.say(news{Stopped: true, Sent: p.stop()})
		case o.Settle:
			p.out.say(p.inbox.settle(p.ctx, o.Expect, p.mortal()))
		case o.Dump:
			snap, err := p.ep.Snapshot(p.ctx)
			text, _ := json.Marshal(snap)
			_, _ = fmt.Fprintf(os.Stderr, "%s %d %v: %s\n", p.Is, p.Index, err, text)
		case o.Close:
			returns := p.returns()
			p.close()
			<-looking
			if text := leaked(before); text != "" {
				p.w.wrong("%s", text)
			}
			report := p.w.report()
			report.Returns, report.Samples = returns, p.samples.samples()
			p.out.say(news{Closed: true, Report: report})
			return nil
		}
	}
	return nil
}

func (p *peer) start() (err error) {
	if p.fab, err = p.open(); err != nil {
		return err
	}
	if p.dom, err = p.fab.OpenDomain(efa.DomainConfig{Spin: time.Microsecond}); err != nil {
		return err
	}
	p.av = p.dom.NewAddressVector()
	p.ep, err = p.dom.NewEndpoint(efa.EndpointConfig{
		AV: p.av, QPN: p.QPN, Protocol: efa.ProtocolConfig{PeerTimeout: p.PeerTimeout},
	})
	if err != nil {
		return err
	}
	if err := p.ep.Enable(p.ctx); err != nil {
		return err
	}
	if p.mem, err = p.dom.Alloc(mostPeers*windowLen, efa.AccessRemoteRead|efa.AccessRemoteWrite); err != nil {
		return err
	}
	if p.own, err = p.dom.Alloc(longest, efa.AccessSend|efa.AccessRecv); err != nil {
		return err
	}
	p.receive()
	return nil
}

// meet begins to talk with another process, or with its next life.
func (p *peer) meet(c *card) {
	if old := p.others[c.Index]; old != nil {
		old.cancel()
		old.done.Wait()
		call := p.w.begin(fmt.Sprintf("%s %d: removing an address", p.Is, p.Index), p.mortal(), false)
		_ = call.end(p.av.Remove(p.ctx, old.to))
	}
	o := &other{card: *c, log: sentLog{Stream: stream{p.Index, c.Index, p.Life, c.Life}}}
	o.ctx, o.cancel = context.WithCancel(p.ctx)
	p.others[c.Index] = o
	var err error
	if o.to, err = p.av.Insert(c.Address); err != nil {
		p.w.wrong("%s %d: insert %v: %v", p.Is, p.Index, c.Address, err)
		return
	}
	var at efa.Remote
	if err := at.UnmarshalBinary(c.Memory); err != nil {
		p.w.wrong("%s %d: memory of %d: %v", p.Is, p.Index, c.Index, err)
		return
	}
	o.memory = p.ep.Memory(o.to, at)
	o.done.Add(2)
	go func() { defer o.done.Done(); p.send(o) }()
	go func() { defer o.done.Done(); p.access(o) }()
	if p.steadyWith(c) && c.Index == (p.Index+1)%steadyPeers {
		o.done.Add(1)
		go func() { defer o.done.Done(); p.visit(o) }()
	}
}

// stop ends what begins here and returns what was sent.
func (p *peer) stop() (logs []sentLog) {
	for _, o := range p.others {
		o.cancel()
	}
	for _, o := range p.others {
		o.done.Wait()
		logs = append(logs, o.log)
	}
	return logs
}

func (p *peer) close() {
	p.stop()
	p.cancel()
	p.recvs.Wait()
	c := p.w.begin(fmt.Sprintf("%s %d: closing", p.Is, p.Index), p.Steady+time.Second, false)
	errs := []error{p.ep.Close(), p.mem.Close(), p.own.Close(), p.av.Close(), p.dom.Close(), p.fab.Close()}
	if err := c.end(errors.Join(errs...)); err != nil {
		p.w.wrong("%s %d: close: %v", p.Is, p.Index, err)
	}
}

// process runs the role that this process was started for, and reports whether it was.
func process() bool {
	text := os.Getenv(roleVar)
	if text == "" {
		return false
	}
	out := newLine(os.Stdout)
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = play(r, os.Stdin, out)
	}
	if err != nil {
		out.say(news{Report: &report{Wrongs: []string{err.Error()}}})
		os.Exit(1)
	}
	return true
}

func play(r role, in io.Reader, out *line) error {
	switch r.Is {
	case "tcp":
		return runFoe(r, out, tcpFoe)
	case "shm":
		return runFoe(r, out, shmFoe)
	case "launch":
		return runLaunch(r, out)
	case insideRole:
		return runInside(r, in, out)
	case floodRole:
		return runFlood(r, in, out)
	case placesRole:
		return runPlaces(r, in, out)
	case comersRole:
		return runComers(r, in, out)
	case scarceRole:
		return runScarce(r, in, out)
	}
	if c := commandOf(r.Is); c != nil {
		return runTrial(r, in, out, c.run)
	}
	return runPeer(r, in, out)
}
