//go:build linux

package tcp_test

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/internal/netlab"
	"github.com/efactor/efactor/internal/netlab/traffic"
	"github.com/efactor/efactor/internal/testenv"
)

// hostVar makes this test binary one of the hosts.
const hostVar = "EFACTOR_TCP_TEST_HOST"

// hostJob is a host's task.
type hostJob struct {
	traffic.Job
	Addr    netip.Addr
	Secret  []byte // empty: plain
	Lanes   int
	Timeout time.Duration
}

const (
	netSecret = "of the hosts of these tests"

	// hostPatience is the time for tasks of a second, on a busy machine too.
	hostPatience = 90 * time.Second

	// timeout is the hosts' timeout where a test waits for it: hosts that are well may not be
	// silent for as long on a busy machine.
	timeout = 5 * time.Second
	// soon is for what timeout ends. TCP's own have not expired by then.
	soon = 30 * time.Second
)

// TestNetHost is the program of a host: it runs in the namespace of one.
func TestNetHost(t *testing.T) {
	text := os.Getenv(hostVar)
	if text == "" {
		return
	}
	var job hostJob
	require.NoError(t, json.Unmarshal([]byte(text), &job))
	cfg := tcp.Config{
		Addr: job.Addr, Lanes: job.Lanes, Timeout: job.Timeout, Insecure: len(job.Secret) == 0,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if len(job.Secret) > 0 {
		var err error
		cfg.Credentials, err = tcp.JobSecret(job.Secret)
		require.NoError(t, err)
	}
	dev, err := tcp.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, traffic.Serve(dev, job.Job, os.Stdin, os.Stdout))
	require.NoError(t, dev.Close())
}

// startHosts starts one on each host of the lab; each has its addr, IPv4 or IPv6.
func startHosts(t *testing.T, l *netlab.Lab, job hostJob) []*traffic.Process {
	t.Helper()
	var all []*traffic.Process
	for i, h := range l.Hosts() {
		mine := job
		mine.Host, mine.Hosts = i, len(l.Hosts())
		if mine.Addr = h.Addr(); job.Addr.Is6() {
			mine.Addr = h.Addr6()
		}
		all = append(all, startHost(t, h, mine))
	}
	return all
}

func startHost(t *testing.T, h *netlab.Host, job hostJob) *traffic.Process {
	t.Helper()
	text, err := json.Marshal(job)
	require.NoError(t, err)
	c := h.Command(os.Args[0], "-test.run=^TestNetHost$", "-test.count=1")
	c.Env = append(os.Environ(), hostVar+"="+string(text))
	return traffic.Start(t, c)
}

// eachSecurity runs a test without protection and under TLS; in the short form under TLS alone,
// of which the rest is a part.
func eachSecurity(t *testing.T, f func(t *testing.T, secret []byte)) {
	t.Helper()
	netlab.Require(t)
	t.Run("plain", func(t *testing.T) {
		testenv.Long(t, "hosts of a lab")
		f(t, nil)
	})
	t.Run("TLS", func(t *testing.T) { f(t, []byte(netSecret)) })
}

// stopAll waits for the end of the load on all hosts, and compares.
func stopAll(t *testing.T, all []*traffic.Process, tell bool, d time.Duration) (sent, failed int, longest time.Duration) {
	t.Helper()
	for _, p := range all {
		if tell {
			p.Stop()
		}
	}
	for _, p := range all {
		p.Stopped(d)
	}
	return traffic.Check(t, all)
}

// A bad network loses time, and nothing else: no session breaks, and everything
// arrives once and whole.
func TestNetBad(t *testing.T) {
	for _, c := range []struct {
		name  string
		lab   netlab.Options
		job   hostJob
		worse func(l *netlab.Lab)
	}{
		{"loss", netlab.Options{Hosts: 3}, hostJob{Job: traffic.Job{Count: 600}, Lanes: 2}, func(l *netlab.Lab) {
			for _, h := range l.Hosts() {
				h.Loss(1)
			}
		}},
		{"rate", netlab.Options{Hosts: 2}, hostJob{Job: traffic.Job{Count: 250}}, func(l *netlab.Lab) {
			l.Host(1).Rate(10_000)
		}},
		{"delay", netlab.Options{Hosts: 3, Delay: 10 * time.Millisecond}, hostJob{Job: traffic.Job{Count: 400}}, nil},
		{
			"loss and delay on IPv6",
			netlab.Options{Hosts: 2, Delay: 4 * time.Millisecond},
			hostJob{Job: traffic.Job{Count: 300}, Addr: netip.IPv6Loopback()},
			func(l *netlab.Lab) { l.Host(0).Loss(1) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "loss and delay on IPv6" {
				testenv.Long(t, "other rows do")
			}
			eachSecurity(t, func(t *testing.T, secret []byte) {
				l := netlab.New(t, c.lab)
				if c.worse != nil {
					c.worse(l)
				}
				job := c.job
				job.Secret, job.Timeout, job.Seed = secret, time.Minute, 1
				all := startHosts(t, l, job)
				traffic.Begin(all)
				_, failed, _ := stopAll(t, all, false, 3*hostPatience)
				require.Zero(t, failed, "requests that failed")
			})
		})
	}
}

// A cable is pulled and put back: outstanding requests end within the timeout, others
// are not affected, and new sessions carry on, which take nothing of the old ones.
func TestNetUnplug(t *testing.T) {
	eachSecurity(t, func(t *testing.T, secret []byte) {
		l := netlab.New(t, netlab.Options{Hosts: 3})
		all := startHosts(t, l, hostJob{Secret: secret, Timeout: timeout, Job: traffic.Job{Seed: 2}})
		traffic.Begin(all)
		for i, p := range all {
			for j := range all {
				if i != j {
					p.Flowing(j, hostPatience)
				}
			}
		}
		rounds := 2
		if testenv.Short() {
			rounds = 1
		}
		for round := range rounds {
			if round == 0 {
				l.Host(2).Unplug()
			} else {
				l.Cut(0, 2)
				l.Cut(1, 2)
			}
			for _, p := range []int{0, 1} {
				d := all[p].Down(2, false, soon)
				assert.NotEmpty(t, d.Status)
				all[2].Down(p, false, soon)
			}
			if round == 0 {
				l.Host(2).Plug()
			} else {
				l.Mend(0, 2)
				l.Mend(1, 2)
			}
			for _, p := range []int{0, 1} {
				all[p].Down(2, true, hostPatience)
				all[2].Down(p, true, hostPatience)
			}
		}
		sent, failed, longest := stopAll(t, all, true, hostPatience)
		assert.Positive(t, failed)
		assert.Positive(t, sent)
		assert.LessOrEqual(t, longest, soon, "the longest time of a request that failed")
		for from, to := range map[int]int{0: 1, 1: 0} {
			assert.Empty(t, all[from].Report().Peers[to].Failed, "%d and %d were connected all the time", from, to)
		}
	})
}

// A host that is killed while its cable is pulled says nothing. Another process at its
// address is no continuation of it.
func TestNetHalfOpen(t *testing.T) {
	eachSecurity(t, func(t *testing.T, secret []byte) {
		l := netlab.New(t, netlab.Options{Hosts: 2})
		job := hostJob{Secret: secret, Timeout: timeout, Job: traffic.Job{Seed: 3}}
		all := startHosts(t, l, job)
		traffic.Begin(all)
		all[0].Flowing(1, hostPatience)
		l.Host(1).Unplug()
		all[1].Kill()
		d := all[0].Down(1, false, soon)
		assert.NotEmpty(t, d.Status)
		l.Host(1).Plug()
		job.Host, job.Hosts, job.Addr = 1, 2, l.Host(1).Addr()
		startHost(t, l.Host(1), job) // another port, which does not take part
		all[0].StillDown(1, 500*time.Millisecond)
	})
}
