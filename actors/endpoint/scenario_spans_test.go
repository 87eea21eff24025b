package endpoint_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/internal/spans"
	"github.com/efactor/efactor/runtime/clock"
)

// observed is what becomes of the trail of the endpoint under test.
type observed struct {
	log  spans.Log
	tele *telemetry.Collector
}

// observe gives the endpoint that is about to be opened a trail.
func (s *scenario) observe() *trail.Log {
	var err error
	s.spans.tele, err = telemetry.New(telemetry.Config{TracerProvider: s.spans.log.Provider(), Inline: true})
	require.NoError(s.t, err)
	now := func() clock.Time {
		if s.rig == nil {
			return 0 // it is being opened
		}
		return s.rig.Shard.Now()
	}
	return s.spans.tele.Open(telemetry.Endpoint{Now: now}).Log()
}

// ended gives the spans that have ended since the last time, with the rig's names for
// connids.
func (s *scenario) ended() string {
	s.rig.Run()
	s.spans.tele.Drain()
	list := s.spans.log.Take()
	require.Empty(s.t, spans.Check(list))
	out := spans.Text(list, func(connid string) string { return connid })
	for _, x := range s.rig.Remotes() {
		out = strings.ReplaceAll(out, fmt.Sprintf("%08x", x.Addr.ConnID()), x.Name)
	}
	return out
}

// panic sets up a panic.
func (s *scenario) panic(where string) {
	s.panics++
	switch where {
	case "peer":
		s.rig.EP.PoisonPeers()
	case "endpoint":
		s.unfinished = true
		s.rig.EP.Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() { panic("a bug") }}})
	default:
		panicsIn(s.rig, s.rig.Op(where))
	}
}
