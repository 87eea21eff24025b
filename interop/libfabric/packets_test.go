//go:build linux

package libfabric_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// packets counts the packets that cross our side's device: Out is efactor's, the
// rest libfabric's. It keeps the latest as text, for failures.
type packets struct {
	clock.Clock

	mu     sync.Mutex
	counts counts
	reads  int // RDMA reads of ours
	latest []string
}

// counts are packets by type and sender.
type counts map[sent]int

type sent struct {
	ours bool
	kind wire.Type
}

const maxLatest = 200

func newPackets() *packets { return &packets{Clock: clock.System, counts: counts{}} }

// Packet implements tap.Sink.
func (p *packets) Packet(r tap.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	way := "<-"
	if r.Out {
		way = "->"
	}
	if r.Packet == nil {
		if r.Out && r.Kind == device.WRRead {
			p.reads++
		}
		p.note("%s RDMA kind %d, %d bytes, imm %t", way, r.Kind, r.Len, r.HasImm)
		return
	}
	if len(r.Packet) > 0 {
		p.counts[sent{r.Out, wire.Type(r.Packet[0])}]++
	}
	p.note("%s %d:%d %s", way, r.From.QPN(), r.To.QPN(), wiretext.Summary(r.Packet))
}

func (p *packets) note(format string, args ...any) {
	if len(p.latest) >= maxLatest {
		p.latest = append(p.latest[:0], p.latest[maxLatest/2:]...)
	}
	p.latest = append(p.latest, fmt.Sprintf("%d ", p.Now()/1000)+fmt.Sprintf(format, args...))
}

// take returns the counts since the last call, and forgets them.
func (p *packets) take() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	p.counts = counts{}
	return c
}

// String is the latest packets, one a line.
func (p *packets) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "--- packets, -> from efactor, microseconds\n" + strings.Join(p.latest, "\n")
}

// String lists the types.
func (c counts) String() string {
	var lines []string
	for s, n := range c {
		who := "libfabric"
		if s.ours {
			who = "efactor"
		}
		lines = append(lines, fmt.Sprintf("%s %v %d", who, s.kind, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
