package efatest_test

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/eratest"
	"github.com/efactor/efactor/internal/wiretext"
)

// judges stand beside the endpoints of a former era and see what they get and send.
type judges map[sim.Endpoint]*judged

// judged is an endpoint of a former era.
type judged struct {
	n     *node
	judge *eratest.Judge
}

// judgeOf puts a judge beside an endpoint if it is of a former era.
func (r *run) judgeOf(n *node) {
	if r.raws == nil {
		r.raws = make(map[sim.Endpoint]efa.RawAddr)
	}
	for _, raw := range []efa.RawAddr{n.raw, n.near} {
		at := sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
		r.raws[at] = raw
		delete(r.judges, at)
		if n.plan.era != nil {
			if r.judges == nil {
				r.judges = make(judges)
			}
			r.judges[at] = &judged{n, eratest.NewJudge(*n.plan.era, r.p.fabric.MTU)}
		}
	}
}

// observe shows the judges what concerns them; a packet that would have ended the
// endpoint fails the seed.
func (r *run) observe(e sim.Event) {
	r.moments.see(e)
	if e.WR != device.WRSend || e.Kind != sim.EventArrive && e.Kind != sim.EventPost {
		return
	}
	if r.logs && e.Kind == sim.EventPost {
		r.w.Logf("packet #%d: %s", e.Seq, wiretext.Summary(packet(e)))
	}
	if r.ways != nil {
		r.ways.see(r, e)
	}
	if len(r.judges) == 0 {
		return
	}
	var err error
	var j *judged
	if e.Kind == sim.EventArrive {
		if j = r.judges[e.To]; j == nil || e.Status != device.StatusOK {
			return
		}
		err = j.judge.Take(packet(e), r.raws[e.From])
	} else {
		if j = r.judges[e.From]; j == nil {
			return
		}
		err = j.judge.Sent(packet(e), r.raws[e.To])
	}
	r.stats["judged"]++
	if err != nil {
		r.fail("endpoint %d: %w", j.n.id, err)
	}
}

func packet(e sim.Event) []byte {
	return append(append(make([]byte, 0, len(e.Header)+len(e.Payload)), e.Header...), e.Payload...)
}
