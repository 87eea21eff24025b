package netlab

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Options describe a lab.
type Options struct {
	Hosts int // 1 to 100
	// Delay holds every packet on its way from a host and on its way to it for half of
	// this, so a round trip between two hosts takes twice as long. Host.Delay changes it.
	// 0: none, and Host.Delay cannot be used, since cables are plain then.
	Delay time.Duration
}

// Lab is a switch with hosts.
type Lab struct {
	t     testing.TB
	name  string // prefix of the namespaces
	hosts []*Host

	mu    sync.Mutex
	rules rules
}

// New makes a lab that is removed at the end of the test.
func New(t testing.TB, o Options) *Lab {
	t.Helper()
	Require(t)
	require.True(t, o.Hosts >= 1 && o.Hosts <= 100, "hosts: %d", o.Hosts)
	sweep()
	l := &Lab{t: t, name: prefix(), rules: newRules()}
	t.Cleanup(l.remove)

	l.run("", "ip", "netns", "add", l.swtch())
	l.ip(l.swtch(), "link set lo up\nlink add name br0 type bridge stp_state 0 forward_delay 0\nlink set br0 up\n")
	for i := range o.Hosts {
		h := &Host{lab: l, index: i, port: fmt.Sprintf("h%d", i+1), addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)})}
		h.ns = l.name + h.port
		l.run("", "ip", "netns", "add", h.ns)
		if o.Delay > 0 {
			h.wire = newWire(l, h)
			h.Delay(o.Delay)
		} else {
			l.ip(l.swtch(), fmt.Sprintf("link add name %s type veth peer name eth0 netns %s\n", h.port, h.ns))
		}
		l.hosts = append(l.hosts, h)
		l.ip(l.swtch(), fmt.Sprintf("link set %[1]s master br0\nlink set %[1]s up\n", h.port))
		l.ip(h.ns, fmt.Sprintf("link set lo up\nlink set eth0 up\naddr add %s/24 dev eth0\naddr add %s/64 dev eth0 nodad\n",
			h.addr, h.Addr6()))
	}
	return l
}

// Host is the i-th host, from 0.
func (l *Lab) Host(i int) *Host { return l.hosts[i] }

// Hosts are all of them.
func (l *Lab) Hosts() []*Host { return l.hosts }

func (l *Lab) swtch() string { return l.name + "sw" }

// remove leaves nothing, as far as it gets.
func (l *Lab) remove() {
	for _, h := range l.hosts {
		h.killAll()
	}
	for _, h := range l.hosts {
		if h.wire != nil {
			h.wire.close()
		}
		_ = run("", "ip", "netns", "del", h.ns)
	}
	_ = run("", "ip", "netns", "del", l.swtch())
}

// run fails the test if the command fails.
func (l *Lab) run(stdin string, args ...string) {
	l.t.Helper()
	require.NoError(l.t, run(stdin, args...))
}

// ip runs lines of ip in a namespace.
func (l *Lab) ip(ns, lines string) {
	l.t.Helper()
	l.run(lines, "ip", "-n", ns, "-batch", "-")
}

// Cut drops what two hosts send to each other, on the switch, without a word to either.
func (l *Lab) Cut(a, b int) {
	l.t.Helper()
	l.change(func(r *rules) { r.cut[pairOf(a, b)] = true })
}

// Mend takes Cut back.
func (l *Lab) Mend(a, b int) {
	l.t.Helper()
	l.change(func(r *rules) { delete(r.cut, pairOf(a, b)) })
}

// change installs the rules anew.
func (l *Lab) change(f func(*rules)) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.rules)
	l.run(l.rules.String(), "ip", "netns", "exec", l.swtch(), "nft", "-f", "-")
}

// rules are what the switch drops.
type rules struct {
	loss map[int]int // percent, by host
	cut  map[[2]int]bool
}

func newRules() rules { return rules{loss: map[int]int{}, cut: map[[2]int]bool{}} }

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// String is a script of nft that puts these in the place of the former.
func (r rules) String() string {
	var b strings.Builder
	b.WriteString("table bridge lab\ndelete table bridge lab\ntable bridge lab {\nchain forward {\ntype filter hook forward priority 0;\n")
	for p := range r.cut {
		fmt.Fprintf(&b, "iifname h%[1]d oifname h%[2]d drop\niifname h%[2]d oifname h%[1]d drop\n", p[0]+1, p[1]+1)
	}
	for h, percent := range r.loss {
		for _, dir := range []string{"iifname", "oifname"} {
			fmt.Fprintf(&b, "%s h%d numgen random mod 100 < %d drop\n", dir, h+1, percent)
		}
	}
	b.WriteString("}\n}\n")
	return b.String()
}
