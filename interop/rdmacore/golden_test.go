//go:build linux

package rdmacore

import (
	"testing"

	"github.com/efactor/efactor/internal/testenv"
)

// Each program runs under a profile, "" for the default, and prints what the golden
// file of the case says.
var cases = []struct {
	name   string
	launch launch
}{
	{"device", launch{program: "device"}},
	{"device-no-rdma", launch{program: "device", profile: "no-rdma"}},
	{"device-efa0", launch{program: "device", profile: "efa0"}},
	{"device-rdma-write", launch{program: "device", profile: "rdma-write"}},
	{"device-small", launch{program: "device", profile: "small"}},
	{"region", launch{program: "region"}},
	{"region-no-rdma", launch{program: "region", profile: "no-rdma"}},
	{"region-rdma-write", launch{program: "region", profile: "rdma-write", args: []string{"write"}}},
	{"region-small", launch{program: "region", profile: "small"}},
	{"queue", launch{program: "queue"}},
	{"queue-no-rdma", launch{program: "queue", profile: "no-rdma"}},
	{"queue-efa0", launch{program: "queue", profile: "efa0"}},
	{"queue-rdma-write", launch{program: "queue", profile: "rdma-write"}},
	{"queue-small", launch{program: "queue", profile: "small"}},
	{"queue-strict", launch{program: "queue", profile: "strict"}},
	{"handle", launch{program: "handle"}},
	{"handle-small", launch{program: "handle", profile: "small"}},
	{"order", launch{program: "order"}},
	{"order-strict", launch{program: "order", profile: "strict"}},
	{"misuse", launch{program: "misuse"}},
	{"misuse-small", launch{program: "misuse", profile: "small"}},

	{"send", launch{program: "send", args: []string{"srd"}}},
	{"send-ud", launch{program: "send", args: []string{"ud"}}},
	{"send-efa0", launch{program: "send", profile: "efa0", args: []string{"srd"}}},
	{"send-ud-efa0", launch{program: "send", profile: "efa0", args: []string{"ud"}}},
	{"send-rdma-write", launch{program: "send", profile: "rdma-write", args: []string{"srd"}}},
	{"send-small", launch{program: "send", profile: "small", args: []string{"srd"}}},
	{"datagram", launch{program: "datagram"}},
	{"rnr", launch{program: "rnr"}},
	{"wrap", launch{program: "wrap"}},
	{"wrap-small", launch{program: "wrap", profile: "small", args: []string{"64"}}},
	{"wrap-strict", launch{program: "wrap", profile: "strict"}},
	{"wrap-efa0", launch{program: "wrap", profile: "efa0", args: []string{"256"}}},
	{"wrap-shuffle", launch{program: "wrap", args: []string{"64"}, flags: []string{"-shuffle", "8"}}},
	{"events", launch{program: "events"}},
	{"read", launch{program: "read"}},
	{"read-rdma-write", launch{program: "read", profile: "rdma-write"}},
	{"read-shuffle", launch{program: "read", flags: []string{"-shuffle", "8"}}},
	{"extended", launch{program: "extended"}},
	{"extended-strict", launch{program: "extended", profile: "strict"}},
	{"extended-efa0", launch{program: "extended", profile: "efa0"}},
	{"threads", launch{program: "threads"}},
	{"threads-efa0", launch{program: "threads", profile: "efa0"}},

	{"pair", launch{program: "pair"}},
	{"pair-no-rdma", launch{program: "pair", profile: "no-rdma"}},
	{"pair-efa0", launch{program: "pair", profile: "efa0"}},
	{"pair-rdma-write", launch{program: "pair", profile: "rdma-write"}},
	{"pair-shuffle", launch{program: "pair", flags: []string{"-shuffle", "16", "-seed", "7"}}},
	{"stranger", launch{program: "stranger"}},
	{"killed", launch{program: "killed"}},
	{"killed-no-rdma", launch{program: "killed", profile: "no-rdma"}},
}

// In short mode each program runs once.
func TestGolden(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.name != c.launch.program {
				testenv.Long(t, "it runs under the default profile, too")
			}
			t.Parallel()
			sameAsGolden(t, c.name, start(t, c.launch).good(t))
		})
	}
}

// Programs that break rules on purpose: the golden file has strict mode's findings.
func TestFindings(t *testing.T) {
	for name, l := range map[string]launch{
		"refuse":      {program: "refuse"},
		"read-refuse": {program: "read", args: []string{"refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameAsGolden(t, name, start(t, l).found(t))
		})
	}
}
