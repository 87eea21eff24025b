package efadebug

import (
	"context"
	"embed"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
)

//go:embed assets
var assets embed.FS

// patience is how long an endpoint may take to say what it is doing.
const patience = 2 * time.Second

// Page is an http.Handler. Its methods may be called from any goroutine.
type Page struct {
	// Hosts are the names by which browsers may ask for the page, besides localhost and IP
	// addresses; "*" is any. Without the check a web site whose name is made to lead to this
	// host would read the page through its visitor's browser (DNS rebinding). To be set
	// before the page is served.
	Hosts []string

	mu   sync.Mutex
	list []*entry
	job  *member // nil: none
}

type entry struct {
	name string
	ep   *efa.Endpoint
}

// policy keeps everything out that is not the page's own, and the page out of others' frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Entry is an endpoint in the JSON form: its snapshot, or why there is none.
type Entry struct {
	Name     string        `json:"name"`
	Snapshot *efa.Snapshot `json:"snapshot,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// New returns a page without endpoints.
func New() *Page { return &Page{} }

// Add puts an endpoint on the page, under a name for people, until remove is called.
func (p *Page) Add(name string, ep *efa.Endpoint) (remove func()) {
	e := &entry{name, ep}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, e)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = slices.DeleteFunc(p.list, func(x *entry) bool { return x == e })
	}
}

// ServeHTTP serves the page, the JSON for ?json and ?job, and the page's resources. It refuses
// requests for a host that is not in Hosts.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.serves(r.Host) {
		http.Error(w, "the page is not served under this host name; see efadebug.Page.Hosts", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", policy)
	q := r.URL.Query()
	switch {
	case q.Has("json"):
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.entries(r.Context())) // the reader has gone, if anything
	case q.Has("job"):
		p.mu.Lock()
		m := p.job
		p.mu.Unlock()
		if m == nil {
			http.Error(w, "the page shows no job; see efadebug.Page.Join", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.gather(r.Context())) // the reader has gone, if anything
	case q.Has("script"):
		asset(w, "assets/page.js", "text/javascript; charset=utf-8")
	case q.Has("style"):
		asset(w, "assets/page.css", "text/css; charset=utf-8")
	default:
		asset(w, "assets/page.html", "text/html; charset=utf-8")
	}
}

// serves reports whether the page is served under a host name. An address cannot be made to
// lead elsewhere.
func (p *Page) serves(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // without a port
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	return slices.ContainsFunc(p.Hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, host) })
}

func asset(w http.ResponseWriter, name, kind string) {
	b, err := assets.ReadFile(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b) // the reader has gone, if anything
}

// entries asks all endpoints at the same time: one that does not answer delays the
// others by patience only.
func (p *Page) entries(ctx context.Context) []Entry {
	p.mu.Lock()
	list := slices.Clone(p.list)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	es := make([]Entry, len(list))
	var wg sync.WaitGroup
	for i, e := range list {
		wg.Go(func() {
			s, err := e.ep.Snapshot(ctx)
			es[i] = Entry{Name: e.name, Snapshot: s}
			if err != nil {
				es[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	return es
}
