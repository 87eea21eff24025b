package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// ErrList is the error of a list that makes no sense.
var ErrList = errors.New("faults: bad list")

// Usage are the faults, for people.
const Usage = `Faults, as NAME@N with N counted from 1; several are separated by commas:
  length@n id@n qpn@n queue@n
                     completion n tells of 65535 bytes, of a request that was never
                     posted, of a queue pair that is not there, of no queue
  status@n=s         completion n has the status s
  phase@n twice@n overrun@n
                     completion n has the phase of the lap before, comes twice, or
                     fills the whole queue
  cq-error@n qp-fatal@n reset@n
                     after completion n the completion queues are in error, the queue
                     pairs are, the device is gone
  port-down@n        after completion n the port is down, and sends end with a status
  command@n=ERRNO    command n fails, with EIO if no ERRNO is named
  gone@n             the device is gone at command n
  memlock=bytes      no more than that may be registered at a time`

// kinds are the faults at a completion or command; true: they take a value.
var kinds = map[string]bool{
	"length": false, "id": false, "qpn": false, "queue": false, "status": true, "phase": false, "twice": false, "overrun": false,
	"cq-error": false, "qp-fatal": false, "reset": false, "port-down": false, "command": true, "gone": false,
}

// Event is what the kernel half is to do, on a goroutine of its own.
type Event string

// The events.
const (
	CQError  Event = "cq-error"
	QPFatal  Event = "qp-fatal"
	Reset    Event = "reset"
	PortDown Event = "port-down"
)

type item struct {
	name  string
	at    uint64
	value uint64
}

// Plan is a list of faults, and how much of it is over. Any goroutine may call its methods;
// nil is the empty one.
type Plan struct {
	mu          sync.Mutex
	items       []item
	memlock     uint64 // 0: no limit
	locked      uint64
	completions uint64
	commands    uint64
	down        bool
	on          func(Event)
}

// Parse reads a list; nil of an empty one.
func Parse(list string) (*Plan, error) {
	if list == "" {
		return nil, nil
	}
	p := &Plan{}
	for text := range strings.SplitSeq(list, ",") {
		if n, ok := strings.CutPrefix(text, "memlock="); ok {
			v, err := strconv.ParseUint(n, 10, 64)
			if err != nil || v == 0 {
				return nil, fmt.Errorf("%w: %q: want a number of bytes", ErrList, text)
			}
			p.memlock = v
			continue
		}
		i, err := parse(text)
		if err != nil {
			return nil, err
		}
		p.items = append(p.items, i)
	}
	return p, nil
}

func parse(text string) (item, error) {
	name, rest, _ := strings.Cut(text, "@")
	valued, known := kinds[name]
	if !known {
		return item{}, fmt.Errorf("%w: %q: want memlock=bytes or NAME@N, NAME of %s", ErrList, text,
			strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	number, value, has := strings.Cut(rest, "=")
	at, err := strconv.ParseUint(number, 10, 64)
	if err != nil || at == 0 {
		return item{}, fmt.Errorf("%w: %q: when, counted from 1?", ErrList, text)
	}
	i := item{name: name, at: at}
	switch {
	case has && !valued:
		return item{}, fmt.Errorf("%w: %q: takes no value", ErrList, text)
	case name == "status":
		i.value, err = strconv.ParseUint(value, 0, 8)
	case name == "command" && !has:
		i.value = uint64(syscall.EIO)
	case name == "command":
		if i.value = errnos[value]; i.value == 0 {
			err = errors.New("which error?")
		}
	}
	if err != nil {
		return item{}, fmt.Errorf("%w: %q: %w", ErrList, text, err)
	}
	return i, nil
}

var errnos = map[string]uint64{
	"EIO": uint64(syscall.EIO), "ENOMEM": uint64(syscall.ENOMEM), "EINVAL": uint64(syscall.EINVAL), "EBUSY": uint64(syscall.EBUSY),
	"EAGAIN": uint64(syscall.EAGAIN), "EPERM": uint64(syscall.EPERM), "ENODEV": uint64(syscall.ENODEV), "EOPNOTSUPP": uint64(syscall.EOPNOTSUPP),
}

// On has f called for each event, on a goroutine of its own.
func (p *Plan) On(f func(Event)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = f
}

// How says how a completion is to be written.
type How struct {
	Times int  // that it is written
	Flip  bool // with the phase of the lap before
}

// never is an id that no request of an emulated program has had: ids are those of slots,
// which are fewer.
const never = 0xfffe

// Completion spoils a completion of a queue with that many entries.
func (p *Plan) Completion(c *abi.CQE, entries int) How {
	h := How{Times: 1}
	if p == nil {
		return h
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.completions++
	for _, i := range p.items {
		if i.at != p.completions || i.name == "command" || i.name == "gone" {
			continue
		}
		switch i.name {
		case "length":
			c.Length = 0xffff
		case "id":
			c.ReqID = never
		case "qpn":
			c.QPN ^= 0xffff
		case "queue":
			c.Queue = 0
		case "status":
			c.Status = uint8(i.value)
		case "phase":
			h.Flip = true
		case "twice":
			h.Times = 2
		case "overrun":
			h.Times = entries + 1
		default:
			p.down = p.down || i.name == string(PortDown)
			p.tell(Event(i.name))
		}
	}
	if p.down && c.Queue == abi.SendQueue && c.Status == 0 {
		c.Status = uint8(device.StatusUnreachable)
	}
	return h
}

// tell starts what the kernel half does of an event: the caller has locks that it needs.
func (p *Plan) tell(e Event) {
	if p.on != nil {
		go p.on(e)
	}
}

// Down reports whether the port is down.
func (p *Plan) Down() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

// Command is how the next command ends before it has begun; 0: it is carried out.
func (p *Plan) Command() (e syscall.Errno) {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands++
	for _, i := range p.items {
		switch {
		case i.at != p.commands:
		case i.name == "command":
			e = syscall.Errno(i.value)
		case i.name == "gone":
			e = syscall.EIO
			p.tell(Reset)
		}
	}
	return e
}

// Lock takes n bytes of the memory that may be registered; false: there are not so many.
func (p *Plan) Lock(n uint64) bool {
	if p == nil || p.memlock == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.memlock-p.locked {
		return false
	}
	p.locked += n
	return true
}

// Unlock gives them back.
func (p *Plan) Unlock(n uint64) {
	if p == nil || p.memlock == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locked -= n
}
