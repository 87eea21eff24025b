package merge

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
)

// aim is a figure to reach in each of some cases: a ratio to each of some peers or to the
// best of them, or where no peer is named efactor's figure itself.
type aim struct {
	cases []string
	peers []string
	best  bool
	least bool // the bound is the least to reach, not the most
	bound float64
	tail  string // the figure beside the case's own that is meant, such as p99
}

// Aims are figures to reach that have a table together.
type Aims []aim

// bulk are the sizes that one copy is for.
var bulk = []string{"16KiB", "64KiB", "256KiB", "1MiB"}

// Figures are what docs/performance.md measures against.
var Figures = Aims{
	{cases: under("latency/shm/", "8B"), peers: []string{"libfabric-shm"}, bound: 0.8},
	{cases: under("latency/shm/", "512B", "4KiB"), peers: []string{"libfabric-shm"}, bound: 0.9},
	{cases: under("latency/shm/", bulk...), peers: []string{"libfabric-shm"}, bound: 0.8},
	{cases: under("latency/shm/", "16KiB/slice", "64KiB/slice", "256KiB/slice", "1MiB/slice"), peers: []string{"libfabric-shm"}, bound: 1},
	{cases: under("bandwidth/shm/", "4MiB", "16MiB"), peers: []string{"memcpy"}, least: true, bound: 0.9},
	{cases: under("rate/shm/", "8B"), peers: []string{"libfabric-shm"}, least: true, bound: 3},
	{cases: under("rate/shm/", "8B"), peers: []string{"ucx-shm"}, least: true, bound: 1},
	{cases: under("rate/shm/", "8B"), peers: []string{"mpich"}, least: true, bound: 0.7},
	{
		cases: []string{"rate/shm/4KiB", "bandwidth/shm/64KiB", "bandwidth/shm/1MiB"},
		peers: []string{"libfabric-shm", "mpich", "ucx-shm"}, best: true, least: true, bound: 1,
	},
	{cases: under("latency/shm/", "8B"), peers: []string{"mpich", "ucx-shm"}, bound: 1.2},
	{cases: under("latency/tcp/", "8B", "1MiB"), peers: []string{"libfabric-tcp"}, bound: 0.9},
	{cases: under("bandwidth/tcp/", "1MiB"), peers: []string{"libfabric-tcp"}, least: true, bound: 1.1},
	{cases: under("request/shm/", "8B"), peers: []string{"grpc", "nats", "protoactor"}, bound: 0.03},
	{cases: []string{"latency/remote/request"}, peers: []string{"protoactor"}, bound: 0.1},
	{cases: []string{"rate/remote/oneway"}, peers: []string{"protoactor"}, least: true, bound: 1.5},
	{cases: under("latency/efa/", "8B"), peers: []string{"libfabric-efa"}, bound: 1},
	{cases: under("allreduce/2/", collective...), peers: []string{"mpich", "openmpi"}, bound: 0.9},
	{cases: under("allreduce/4/", collective...), peers: []string{"mpich", "openmpi"}, bound: 0.9},
	{cases: []string{"eager/sim/8B"}, bound: 0.4},
	{cases: under("allocations/", "sim", "shm", "tcp", "efa"), bound: 0},
}

// Waiting is what no wait is to cost: never more than a socket's.
var Waiting = Aims{
	{cases: think("", "/busy"), peers: []string{"go-unix"}, bound: 0.8},
	{cases: think("", "/busy"), peers: []string{"go-unix"}, bound: 1, tail: "p99"},
	{cases: typical("/manual", "/pinned"), peers: []string{"go-unix"}, bound: 0.8},
	{cases: typical("/manual", "/pinned"), peers: []string{"go-unix"}, bound: 1, tail: "p99"},
	{cases: under("request/shm/think/", "500us", "5ms"), peers: []string{"go-unix"}, bound: 1.5, tail: "cpu"},
	{cases: documents("", "/conns8", "/local"), peers: []string{"go-unix"}, bound: 0.8},
	{cases: oneWay("", "/slice"), peers: []string{"go-tcp"}, bound: 1},
	{cases: oneWay("", "/slice"), peers: []string{"openmpi-tcp"}, bound: 1.1},
	{cases: streams("", "/slice"), peers: []string{"openmpi-tcp", "ucx-tcp"}, least: true, bound: 1},
	{cases: []string{"allreduce/4/8B"}, peers: []string{"openmpi"}, bound: 1.2},
	{cases: []string{"allreduce/4/4KiB"}, peers: []string{"openmpi"}, bound: 0.8},
	{cases: []string{"latency/remote/request"}, peers: []string{"protoactor"}, bound: 0.1},
	{cases: []string{"rate/remote/oneway"}, peers: []string{"protoactor"}, least: true, bound: 2.5},
	{cases: []string{"idle/shm", "idle/shm/peers16"}, bound: 0.4},
	{cases: []string{"stream/slow-receiver"}, bound: 21},
}

func oneWay(ways ...string) []string {
	return across([]string{"8B", "4KiB", "64KiB", "1MiB"}, ways, "latency/tcp/")
}

func streams(ways ...string) []string {
	return across([]string{"64KiB", "1MiB"}, ways, "bandwidth/tcp/")
}

func think(ways ...string) []string {
	return across([]string{"20us", "100us", "500us", "5ms"}, ways, "request/shm/think/")
}

func typical(ways ...string) []string { return across([]string{"500us"}, ways, "request/shm/think/") }

func documents(ways ...string) []string {
	return across([]string{"64B", "4KiB", "64KiB", "1MiB"}, ways, "json/")
}

// across names the cases of each way in turn.
func across(names, ways []string, family string) (list []string) {
	for _, w := range ways {
		for _, n := range names {
			list = append(list, family+n+w)
		}
	}
	return list
}

var collective = []string{"8B", "4KiB", "64KiB", "1MiB", "16MiB", "64MiB"}

func under(family string, names ...string) (list []string) {
	for _, n := range names {
		list = append(list, family+n)
	}
	return list
}

// Cases names those in which there is something to reach.
func (a Aims) Cases() (list []string) {
	for i := range a {
		list = append(list, a[i].cases...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Peers names those that a case is to be compared with.
func (a Aims) Peers(name string) (list []string) {
	for i := range a {
		if slices.Contains(a[i].cases, name) {
			list = append(list, a[i].peers...)
		}
	}
	return list
}

// result is a line of the table: an aim in one case, beside one peer or the best of some.
type result struct {
	name, peer string
	aim        *aim
	figures    []float64 // of the runs
}

// results compares the runs with each aim.
func (a *tallies) results(names *regexp.Regexp, aims Aims) (list []result) {
	for i := range aims {
		aim := &aims[i]
		for _, name := range aim.cases {
			if names.MatchString(name) {
				list = append(list, a.against(aim, name)...)
			}
		}
	}
	return list
}

func (a *tallies) against(aim *aim, name string) (list []result) {
	t := a.by[name]
	if t == nil {
		t = new(tally)
	}
	switch {
	case len(aim.peers) == 0:
		return []result{{name, "-", aim, t.ours}}
	case aim.best:
		return []result{{name, "the best of " + strings.Join(aim.peers, ", "), aim, t.toBest(aim.peers, a.runs)}}
	}
	for _, p := range aim.peers {
		ratios := t.ratios[p]
		if aim.tail != "" {
			ratios = t.tailRatios[aim.tail][p]
		}
		list = append(list, result{name, p, aim, inOrder(ratios, a.runs)})
	}
	return list
}

func (m *aim) String() string {
	sign := "<="
	if m.least {
		sign = ">="
	}
	return sign + " " + strconv.FormatFloat(m.bound, 'g', -1, 64)
}

func (m *aim) reachedBy(v float64) bool {
	if m.least {
		return v >= m.bound
	}
	return v <= m.bound
}

// verdict says whether the median reached the aim, and in how many runs it was otherwise.
func (r *result) verdict() string {
	if len(r.figures) == 0 {
		return "not measured"
	}
	n := 0
	for _, v := range r.figures {
		if r.aim.reachedBy(v) {
			n++
		}
	}
	word := "**no**"
	if r.aim.reachedBy(versus.SpreadOf(r.figures).Median) {
		word = "yes"
	}
	if n == 0 || n == len(r.figures) {
		return word
	}
	return fmt.Sprintf("%s, in %d of %d", word, n, len(r.figures))
}
