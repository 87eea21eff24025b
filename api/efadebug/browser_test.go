package efadebug_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

// browser is a headless Chromium, spoken to by the WebDriver protocol (W3C).
type browser struct {
	t    *testing.T
	base string // of the session
}

// openBrowser starts one, or skips the test where there is none.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	testenv.NeedAll(t, "a browser")
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		testenv.Missing(t, "no browser: chromium and chromedriver are missing (Debian: chromium, chromium-driver)")
	}
	profile := t.TempDir() // before Cleanup, so that it is removed after what Cleanup ends
	port := freeport.Get(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, driver, fmt.Sprintf("--port=%d", port))
	require.NoError(t, cmd.Start())
	b := &browser{t: t, base: fmt.Sprintf("http://127.0.0.1:%d", port)}
	t.Cleanup(func() {
		_, _ = b.call(http.MethodDelete, "", nil)
		cancel()
		_ = cmd.Wait() // it was killed
		// The browser's helper processes may outlive it by a moment and go on writing.
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, 30*time.Second, 20*time.Millisecond)
	})
	require.Eventually(t, func() bool {
		r, err := b.call(http.MethodGet, "/status", nil)
		return err == nil && bytes.Contains(r, []byte(`"ready":true`))
	}, 90*time.Second, 20*time.Millisecond)
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + profile,
	}
	var made struct{ SessionID string }
	b.must("/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"args": args},
	}}}, &made)
	b.base += "/session/" + made.SessionID
	return b
}

func (b *browser) call(method, path string, in any) (json.RawMessage, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	if in == nil {
		body = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", path, res.Status, text)
	}
	var out struct{ Value json.RawMessage }
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out.Value, err
}

func (b *browser) must(path string, in, out any) {
	b.t.Helper()
	v, err := b.call(http.MethodPost, path, in)
	require.NoError(b.t, err)
	if out != nil {
		require.NoError(b.t, json.Unmarshal(v, out))
	}
}

func (b *browser) open(url string) { b.must("/url", map[string]string{"url": url}, nil) }

// run gives the value of a JavaScript expression.
func (b *browser) run(expr string, out any) {
	b.t.Helper()
	b.must("/execute/sync", map[string]any{"script": "return " + expr, "args": []any{}}, out)
}

func (b *browser) text() (s string) {
	b.run("document.body.innerText", &s)
	return s
}

func (b *browser) rows() (n int) {
	b.run("document.querySelectorAll('tbody tr').length", &n)
	return n
}

// eventually waits for the page to say what it should.
func (b *browser) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, 90*time.Second, 50*time.Millisecond, what)
}

// TestPageInBrowser: a thousand peers with an operation each, of which one is looked
// for; the page goes on by itself.
func TestPageInBrowser(t *testing.T) {
	b := openBrowser(t)
	w, p := newWorld(t), efadebug.New()
	hub, av := w.endpoint()
	p.Add("hub <script>alert(1)</script>", hub)
	const peers = 1000
	var last string
	for i := range peers {
		// These addresses have no endpoint: with an operation the peer is there.
		a, err := efa.ParseAddress(absent(hub, i))
		require.NoError(t, err)
		to, err := av.InsertNamed(a, fmt.Sprint("rank ", i))
		require.NoError(t, err)
		_, err = hub.PostRecv(&efa.RecvReq{From: to, Directed: true, Buf: make([]byte, 8), Tagged: true, Tag: uint64(i) << 50})
		require.NoError(t, err)
		last = a.String()
	}
	srv := httptest.NewServer(p)
	defer srv.Close()
	b.open(srv.URL + "/debug/efa")
	b.eventually("all rows", func() bool { return b.rows() == 2*peers })
	require.Contains(t, b.text(), "hub <script>alert(1)</script>", "text stays text")
	require.Contains(t, b.text(), "a message that matches")
	require.Contains(t, b.text(), fmt.Sprintf("%#x", uint64(peers-1)<<50), "tags are exact")

	require.Contains(t, b.text(), fmt.Sprintf("rank %d, %s", peers-1, last), "the operation's peer, by name and address")

	raw := last[strings.LastIndex(last, "/")+1:]
	b.run(fmt.Sprintf(`(f => { f.value = %q; f.dispatchEvent(new Event("input")); })(document.getElementById("filter"))`, raw), nil)
	require.Equal(t, 2, b.rows(), "one peer and its operation")
	require.NoError(t, hub.Close())
	b.eventually("the end", func() bool { return strings.Contains(b.text(), "closed") })
	require.Zero(t, b.rows())
}

// absent is the address of nobody: ep's with another queue pair number.
func absent(ep *efa.Endpoint, i int) string {
	s := ep.Address().String()
	parts := strings.Split(s, ":")
	parts[len(parts)-2] = fmt.Sprint(10_000 + i)
	return strings.Join(parts, ":")
}
