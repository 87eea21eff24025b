//go:build linux

package toxics

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/internal/netlab"
	"github.com/efactor/efactor/internal/netlab/traffic"
	"github.com/efactor/efactor/runtime/clock"
)

// roleVar makes this test binary one of the programs on a host; its value is the JSON
// text of a role.
const roleVar = "EFACTOR_TOXICS_TEST_ROLE"

// role is the role of a process: a queue pair with its load, or a proxy.
type role struct {
	Host *struct {
		traffic.Job
		Addr    netip.Addr
		Secret  []byte // empty: plain
		Timeout time.Duration
	}
	Upstream string // of the proxy
}

// nobody is the user of the proxies, whose own connections are not redirected.
const nobody = 65534

func TestMain(m *testing.M) {
	text := os.Getenv(roleVar)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := play(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	if r.Host == nil {
		return proxy(r.Upstream, os.Stdin, os.Stdout)
	}
	cfg := tcp.Config{Addr: r.Host.Addr, Timeout: r.Host.Timeout, Insecure: len(r.Host.Secret) == 0}
	if !cfg.Insecure {
		var err error
		if cfg.Credentials, err = tcp.JobSecret(r.Host.Secret); err != nil {
			return err
		}
	}
	dev, err := tcp.Open(cfg)
	if err != nil {
		return err
	}
	if err := traffic.Serve(dev, r.Host.Job, os.Stdin, os.Stdout); err != nil {
		return err
	}
	return dev.Close()
}

// proxy says its port, then adds the toxic of each line, or takes all away for an empty
// one, and answers.
func proxy(upstream string, in io.Reader, out io.Writer) error {
	if err := syscall.Setgid(nobody); err != nil {
		return err
	}
	if err := syscall.Setuid(nobody); err != nil {
		return err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "lane", "0.0.0.0:0", upstream)
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Stop()
	fmt.Fprintln(out, netip.MustParseAddrPort(p.Listen).Port())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == "" {
			p.Toxics.ResetToxics(context.Background()) // zerolog's logger is not in it
		} else if _, err := p.Toxics.AddToxicJson(strings.NewReader(lines.Text())); err != nil {
			return err
		}
		fmt.Fprintln(out, "done")
	}
	return nil
}

// pair are two hosts and the proxies between them.
type pair struct {
	lab     *netlab.Lab
	hosts   []*traffic.Process
	proxies []*proxyProcess
}

func newPair(t *testing.T, secret []byte, timeout time.Duration, job traffic.Job) *pair {
	t.Helper()
	p := &pair{lab: netlab.New(t, netlab.Options{Hosts: 2})}
	for i, h := range p.lab.Hosts() {
		r := role{Host: &struct {
			traffic.Job
			Addr    netip.Addr
			Secret  []byte
			Timeout time.Duration
		}{job, h.Addr(), secret, timeout}}
		r.Host.Host, r.Host.Hosts = i, 2
		c := h.Command(os.Args[0])
		c.Env = append(os.Environ(), roleVar+"="+text(t, r))
		p.hosts = append(p.hosts, traffic.Start(t, c))
	}
	for i, h := range p.lab.Hosts() {
		other := netip.AddrPortFrom(p.lab.Host(1-i).Addr(), p.hosts[1-i].Place.QPN)
		px := startProxy(t, h, other.String())
		p.proxies = append(p.proxies, px)
		c := h.Command("nft", "-f", "-")
		c.Stdin = strings.NewReader(fmt.Sprintf(`table ip toxics { chain output { type nat hook output priority -100;
			ip daddr %s tcp dport %d meta skuid != %d redirect to :%s
		}; }`, other.Addr(), other.Port(), nobody, px.port))
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return p
}

func text(t *testing.T, r role) string {
	t.Helper()
	b, err := json.Marshal(r)
	require.NoError(t, err)
	return string(b)
}

// proxyProcess is a proxy, seen from the test.
type proxyProcess struct {
	t    *testing.T
	in   io.WriteCloser
	out  chan string
	port string
}

func startProxy(t *testing.T, h *netlab.Host, upstream string) *proxyProcess {
	t.Helper()
	c := h.Command(os.Args[0])
	c.Env = append(os.Environ(), roleVar+"="+text(t, role{Upstream: upstream}))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	p := &proxyProcess{t: t, in: in, out: make(chan string, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.out <- lines.Text()
		}
	}()
	t.Cleanup(func() { in.Close(); _ = c.Process.Kill(); <-done; _ = c.Wait() })
	p.port = p.answer()
	return p
}

func (p *proxyProcess) answer() string {
	p.t.Helper()
	timer := clock.NewTimer(patience)
	defer timer.Stop()
	select {
	case line, ok := <-p.out:
		require.True(p.t, ok, "the proxy has ended")
		return line
	case <-timer.C:
		require.FailNow(p.t, "the proxy does not answer")
		return ""
	}
}

// add puts a toxic of that kind on a direction: "upstream" is towards the other host.
func (p *proxyProcess) add(kind, direction string, attributes map[string]int) {
	p.t.Helper()
	b, err := json.Marshal(map[string]any{"type": kind, "stream": direction, "attributes": attributes})
	require.NoError(p.t, err)
	p.say(string(b))
}

func (p *proxyProcess) clear() {
	p.t.Helper()
	p.say("")
}

func (p *proxyProcess) say(line string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	p.answer()
}
