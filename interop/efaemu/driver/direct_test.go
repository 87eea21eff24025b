//go:build linux

package driver_test

import (
	"testing"

	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/directtest"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// TestDirect: endpoints without the protocol on EFA devices, each with a card of its own:
// one that reads, one that writes, too, and one of those where a write with data takes a
// receive.
func TestDirect(t *testing.T) {
	for name, change := range map[string]func(*profile.Profile){
		"efa": nil, "rdma-write": nil, "strict": func(p *profile.Profile) { p.UnsolicitedWrite = false },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "strict" {
				testenv.Long(t, "as on a strict card")
			}
			var of *testing.T
			var fabrics func(int) efa.Device
			n := 0
			directtest.Run(t, func(t *testing.T) efa.Device {
				if of != t {
					fabrics, of = shared(t), t
				}
				n++
				d, card := open(t, fabrics(n), named(t, name, change), uverbs.Config{})
				run(t, []*driver.Card{card})
				return d
			})
		})
	}
}
