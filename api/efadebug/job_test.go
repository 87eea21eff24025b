package efadebug_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/internal/testenv"
)

// job makes a group of ranks, each with a page that has joined it.
func (w *world) job(ranks int) (groups []*launch.Group, pages []*efadebug.Page, leaves []func()) {
	var addresses []efa.Address
	for i := range ranks {
		ep, av := w.endpoint()
		groups = append(groups, &launch.Group{Rank: i, Size: ranks, Endpoint: ep, AddressVector: av})
		addresses = append(addresses, ep.Address())
	}
	for _, g := range groups {
		g.Addresses = addresses
		for i, a := range addresses {
			to, err := g.AddressVector.InsertNamed(a, fmt.Sprintf("rank %d on host%d", i, i))
			require.NoError(w.t, err)
			g.Peers = append(g.Peers, to)
		}
		p := efadebug.New()
		w.t.Cleanup(p.Add("endpoint", g.Endpoint))
		leave := p.Join(g)
		w.t.Cleanup(leave)
		pages, leaves = append(pages, p), append(leaves, leave)
	}
	return groups, pages, leaves
}

func jobOf(t *testing.T, p http.Handler) (j efadebug.Job) {
	t.Helper()
	r := get(t, p, "/x?job")
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.NoError(t, json.Unmarshal([]byte(body(t, r)), &j))
	return j
}

func receiveFrom(t *testing.T, g *launch.Group, rank int) {
	_, err := g.Endpoint.PostRecv(&efa.RecvReq{From: g.Peers[rank], Directed: true, Buf: make([]byte, 8)})
	require.NoError(t, err)
}

// TestSleepingRank: of three ranks one sleeps; the page of each names it, though one of the others
// waits for it only by way of the third. When it does not answer either, the pages say so.
func TestSleepingRank(t *testing.T) {
	groups, pages, leaves := newWorld(t).job(3)
	receiveFrom(t, groups[0], 1)
	receiveFrom(t, groups[1], 2)
	for _, p := range pages {
		require.Eventually(t, func() bool { return len(jobOf(t, p).Culprits) > 0 }, time.Minute, 50*time.Millisecond)
		j := jobOf(t, p)
		require.Equal(t, []efadebug.Culprit{{Rank: 2, Name: "rank 2 on host2", Waiting: []int{0, 1}}}, j.Culprits)
		require.Len(t, j.Ranks, 3)
		require.Equal(t, []int{1}, j.Ranks[0].Waits)
		require.Equal(t, []int{2}, j.Ranks[1].Waits)
		require.Equal(t, "endpoint", j.Ranks[2].Entries[0].Name)
	}
	testenv.Long(t, "a question to a rank that stands still takes seconds")
	leaves[2]() // as if its process were stopped: nobody takes questions
	for range 2 {
		j := jobOf(t, pages[0])
		require.Equal(t, []efadebug.Culprit{{Rank: 2, Name: "rank 2 on host2", Silent: true, Waiting: []int{0, 1}}}, j.Culprits)
		require.Contains(t, j.Ranks[2].Error, "does not answer")
	}
	require.Equal(t, http.StatusNotFound, get(t, pages[2], "/x?job").StatusCode)
}

// TestRing: ranks that wait for each other are all named.
func TestRing(t *testing.T) {
	groups, pages, _ := newWorld(t).job(2)
	receiveFrom(t, groups[0], 1)
	receiveFrom(t, groups[1], 0)
	require.Eventually(t, func() bool { return len(jobOf(t, pages[1]).Culprits) == 2 }, time.Minute, 50*time.Millisecond)
	require.Equal(t, []int{0, 1}, jobOf(t, pages[0]).Culprits[0].Waiting)
}

// TestJobInBrowser: the page names the rank above all else, puts what is stuck first, and does not
// mark a receive from anybody.
func TestJobInBrowser(t *testing.T) {
	b := openBrowser(t)
	groups, pages, _ := newWorld(t).job(3)
	_, err := groups[0].Endpoint.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)})
	require.NoError(t, err)
	receiveFrom(t, groups[0], 2)
	srv := httptest.NewServer(pages[0])
	defer srv.Close()
	b.open(srv.URL + "/debug/efa")
	b.eventually("the culprit", func() bool {
		return strings.Contains(b.text(), "rank 0 waits for rank 2 (rank 2 on host2), which waits for no other")
	})
	var marked []string
	b.eventually("one mark", func() bool {
		b.run(`Array.from(document.querySelectorAll("#endpoints tr.old td:nth-child(5)"), c => c.textContent)`, &marked)
		return len(marked) == 1
	})
	require.NotEqual(t, "anybody", marked[0])
	var first string
	b.run(`document.querySelector("#endpoints tbody tr").className`, &first)
	require.Equal(t, "old", first, "what is stuck comes first, though it is younger")
}
