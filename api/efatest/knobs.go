package efatest

import (
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testknobs"
)

// Knobs are settings of the protocol that only tests make.
type Knobs = testknobs.Knobs

// KnobsOf returns those of a configuration, to be read and set:
//
//	efatest.KnobsOf(&cfg.Protocol).Era = "1.18"
func KnobsOf(p *efa.ProtocolConfig) *Knobs { return p.Knobs() }
