package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
)

// Fault is a kind of fault.
type Fault uint8

// The faults.
const (
	// FaultQueueFull makes PostSend fail with device.ErrQueueFull though there is
	// room. It strikes only while sends are outstanding, so that a poll brings
	// progress as it does with a queue that is really full.
	FaultQueueFull Fault = iota
	// FaultRefuseQP makes OpenQP fail with device.ErrNoMemory.
	FaultRefuseQP
	// FaultRNR refuses a packet, or a write with immediate, as if nothing were
	// posted.
	FaultRNR
	// FaultUnknownAH delivers a packet or write as if the receiver had no handle of
	// the sender.
	FaultUnknownAH
	// FaultStatus ends a request with Rule.Status; the packet is not delivered,
	// the RDMA not carried out.
	FaultStatus
	// FaultDelay delays a request by a seeded part of Rule.Delay.
	FaultDelay
	// FaultLateStatus delivers or carries out a request, but completes it up to
	// Rule.Delay later.
	FaultLateStatus
	// FaultRefuseMR makes Register and Alloc fail with device.ErrNoMemory.
	FaultRefuseMR
	// FaultRefuseAH makes CreateAH fail with device.ErrNoMemory, From a queue pair To a host
	// for which it has no handle.
	FaultRefuseAH

	numFaults = iota
)

var faultText = [numFaults]string{
	"queue-full", "refuse-qp", "rnr", "unknown-ah", "status", "delay", "late-status",
	"refuse-mr", "refuse-ah",
}

// String names the fault as logs do.
func (f Fault) String() string {
	if int(f) < len(faultText) {
		return faultText[f]
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// Rule says when a fault strikes. Zero fields of the selection match anything, but
// Types never matches RDMA. A resend by the device is one more request.
type Rule struct {
	Fault  Fault
	Status device.Status // of FaultStatus
	Delay  time.Duration // of FaultDelay and FaultLateStatus

	From, To Endpoint    // a zero GID or QPN matches all
	Types    []byte      // first bytes of packets, which is their type (§1.3)
	WRs      []device.WR // kinds of request, for the faults of requests

	Skip  int     // let this many pass first
	Times int     // strike this often, then never again; 0: no end
	P     float64 // probability; 0: always

	hits int
}

// AddRule adds a rule after the others; for each fault the first rule that strikes
// decides. It returns a handle for Hits and RemoveRule.
func (f *Fabric) AddRule(r Rule) (*Rule, error) {
	switch {
	case r.Fault >= numFaults:
		return nil, fmt.Errorf("%w: %v", ErrConfig, r.Fault)
	case r.P < 0 || r.P > 1 || r.Skip < 0 || r.Times < 0 || r.Delay < 0:
		return nil, fmt.Errorf("%w: rule %+v", ErrConfig, r)
	case r.Fault == FaultStatus && r.Status == device.StatusOK:
		return nil, fmt.Errorf("%w: %v without a status", ErrConfig, r.Fault)
	}
	f.lock()
	defer f.unlock()
	rule := &r
	rule.hits = 0
	f.rules[r.Fault] = append(f.rules[r.Fault], rule)
	f.setDirect()
	return rule, nil
}

// RemoveRule ends a rule.
func (f *Fabric) RemoveRule(r *Rule) {
	f.lock()
	defer f.unlock()
	rules := f.rules[r.Fault]
	for i := range rules {
		if rules[i] == r {
			f.rules[r.Fault] = append(rules[:i:i], rules[i+1:]...)
			break
		}
	}
	f.setDirect()
}

// Hits returns how often a rule struck.
func (f *Fabric) Hits(r *Rule) int {
	f.lock()
	defer f.unlock()
	return r.hits
}

// Count returns how often a fault struck.
func (f *Fabric) Count(k Fault) uint64 {
	f.lock()
	defer f.unlock()
	if k >= numFaults {
		return 0
	}
	return f.counts[k]
}

// strike returns the rule by which the fault k strikes, or nil.
func (f *Fabric) strike(k Fault, ev *Event) *Rule {
	for _, r := range f.rules[k] {
		if r.Times > 0 && r.hits >= r.Times || !r.matches(ev) {
			continue
		}
		if r.P > 0 && r.P < 1 && f.rng.Float64() >= r.P {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		r.hits++
		f.counts[k]++
		f.hook(Event{Kind: EventFault, Seq: ev.Seq, From: ev.From, To: ev.To, Fault: k})
		return r
	}
	return nil
}

func (r *Rule) matches(ev *Event) bool {
	if !r.From.matches(ev.From) || !r.To.matches(ev.To) {
		return false
	}
	if len(r.WRs) > 0 && !slices.Contains(r.WRs, ev.WR) {
		return false
	}
	if len(r.Types) == 0 {
		return true
	}
	t, ok := ev.Type()
	for _, want := range r.Types {
		if ok && t == want {
			return true
		}
	}
	return false
}

func (e Endpoint) matches(got Endpoint) bool {
	return (e.GID == device.GID{} || e.GID == got.GID) && (e.QPN == 0 || e.QPN == got.QPN)
}

// upTo draws a time from 0 to d.
func (f *Fabric) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(f.rng.Int64N(int64(d) + 1))
}
