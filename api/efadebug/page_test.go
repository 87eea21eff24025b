package efadebug_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/api/efatest"
)

// world is some endpoints on one simulated fabric, in real time.
type world struct {
	t   *testing.T
	fab *efatest.Fabric
}

func newWorld(t *testing.T) *world {
	t.Helper()
	fab, err := efatest.NewFabric(efatest.FabricConfig{})
	require.NoError(t, err)
	return &world{t, fab}
}

func (w *world) endpoint() (*efa.Endpoint, *efa.AddressVector) {
	w.t.Helper()
	dev, err := w.fab.OpenDevice(efatest.DeviceConfig{})
	require.NoError(w.t, err)
	return endpointOn(w.t, dev)
}

func endpointOn(t *testing.T, dev efa.Device) (*efa.Endpoint, *efa.AddressVector) {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	av := dom.NewAddressVector()
	q, err := dom.NewQueue(4096)
	require.NoError(t, err)
	ep, err := dom.NewEndpoint(efa.EndpointConfig{
		AV: av, SendQueue: q, RecvQueue: q,
		// Peers that are not there are not to be found out while a test looks at them.
		Protocol: efa.ProtocolConfig{ProbeAfter: time.Hour, PeerTimeout: time.Hour},
	})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(t.Context()))
	t.Cleanup(func() {
		for _, c := range []io.Closer{ep, dom, fab} {
			_ = c.Close() // a test may have closed it before
		}
	})
	return ep, av
}

func get(t *testing.T, h http.Handler, target string) *http.Response {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if strings.HasPrefix(target, "/") {
		r.Host = "localhost"
	}
	h.ServeHTTP(rec, r)
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

func entries(t *testing.T, h http.Handler) (es []efadebug.Entry) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body(t, get(t, h, "/anywhere?json"))), &es))
	return es
}

func TestPageParts(t *testing.T) {
	p := efadebug.New()
	for target, kind := range map[string]string{
		"/x": "text/html", "/x?script": "text/javascript", "/x?style": "text/css", "/x?json": "application/json",
	} {
		r := get(t, p, target)
		assert.Equal(t, http.StatusOK, r.StatusCode)
		assert.Contains(t, r.Header.Get("Content-Type"), kind)
		assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		assert.NotEmpty(t, body(t, r))
	}
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/x?json", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, rec.Code)
}

// TestHosts: a name that anybody can make lead here is refused, with everything behind it.
func TestHosts(t *testing.T) {
	p := efadebug.New()
	p.Hosts = []string{"ops.example.org"}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LOCALHOST.:80": 200, "127.0.0.1": 200, "127.0.0.1:8080": 200, "192.0.2.7:80": 200,
		"[::1]": 200, "[::1]:8080": 200, "[fe80::1%25eth0]:80": 200, "ops.example.org": 200, "OPS.example.org:8080": 200,
		"rebound.example.com": 421, "rebound.example.com:8080": 421, "localhost.example.com": 421, "127.0.0.1.example.com": 421,
		"xops.example.org": 421, "": 421, ":8080": 421, "*": 421, "localhost:80:80": 421,
	} {
		for _, target := range []string{"/x", "/x?json", "/x?script"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			r.Host = host
			rec := httptest.NewRecorder()
			p.ServeHTTP(rec, r)
			assert.Equal(t, want, rec.Code, "%q %s", host, target)
		}
	}
	p.Hosts = []string{"*"}
	assert.Equal(t, http.StatusOK, get(t, p, "http://anything.example.com/").StatusCode)
}

// TestFrames: no other page may show this one in a frame, and click on it.
func TestFrames(t *testing.T) {
	p := efadebug.New()
	for _, target := range []string{"/x", "/x?json", "/x?script", "/x?style"} {
		h := get(t, p, target).Header
		assert.Equal(t, "DENY", h.Get("X-Frame-Options"), target)
		assert.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", target)
		assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), target)
	}
}

func TestEntries(t *testing.T) {
	w, p := newWorld(t), efadebug.New()
	a, av := w.endpoint()
	b, _ := w.endpoint()
	removeA := p.Add("a", a)
	p.Add("b", b)
	to, err := av.InsertNamed(b.Address(), "rank 1 on node7")
	require.NoError(t, err)
	_, err = a.PostSend(&efa.SendReq{To: to, Buf: make([]byte, 1<<20)})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		es := entries(t, p)
		return len(es[0].Snapshot.Operations) == 1 && es[0].Snapshot.Operations[0].Waits == "CTS"
	}, time.Minute, time.Millisecond)

	s := entries(t, p)[0].Snapshot
	assert.Equal(t, "rank 1 on node7", s.Operations[0].PeerName)
	assert.Equal(t, b.Address().String(), s.Operations[0].Peer, "one notation of addresses")
	require.Len(t, s.Peers, 1)
	assert.Equal(t, "rank 1 on node7", s.Peers[0].Name)
	assert.Equal(t, b.Address().String(), s.Peers[0].Address)
	require.NotNil(t, s.Peers[0].Handle)
	assert.EqualValues(t, to, *s.Peers[0].Handle)
	script := body(t, get(t, p, "/x?script"))
	for _, field := range []string{"o.peer_name", "p.name", "p.handle"} {
		assert.Contains(t, script, field, "the page shows it")
	}

	require.NoError(t, b.Close())
	es := entries(t, p)
	require.Len(t, es, 2)
	assert.Equal(t, "b", es[1].Name)
	assert.Nil(t, es[1].Snapshot)
	assert.Contains(t, es[1].Error, "closed")
	removeA()
	assert.Len(t, entries(t, p), 1)
}
