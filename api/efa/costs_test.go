package efa_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// costsFile has what an operation of each kind costs, in counts that no load of the machine
// changes. A figure must be as it is there, or at most that where "<=" stands before it.
const costsFile = "testdata/costs.txt"

var writeCosts = flag.Bool("write", false, "TestCosts and TestSystemCalls: write "+costsFile+" anew")

// costsHead explains the columns; nan stands for a figure that was not measured.
const costsHead = `# What one operation costs, both sides together, once it has been done many times. TestCosts and
# TestSystemCalls of this directory hold it. After a change that is meant to alter it:
#     go test . -run 'TestCosts|TestSystemCalls' -write
# memory: of the user's buffers; the other side of a read or write is always Alloc's.
# protocol: the subprotocol, as the completion has it. allocs: allocations of Go's. hops: messages through
# rings of shards. copies: bytes of packets, of RDMA and of copies out of packets by bytes of the operation, so
# headers weigh where it is small; copies by the kernel's sockets are not among them. posts: work requests,
# doorbells: calls that set them going. calls: system calls of the thread that works for both sides, without those
# of Go's scheduler; those that only ask what is ready are in polls, whose number depends on when it is. "-": none is counted.
`

var costColumns = []string{"protocol", "allocs", "hops", "copies", "posts", "doorbells", "calls", "polls"}

// costLine is a line of the table: what each column must have, by its name.
type costLine map[string]string

// readCosts gives the table's lines by the names of their cases.
func readCosts(t *testing.T) map[string]costLine {
	t.Helper()
	lines := map[string]costLine{}
	text, err := os.ReadFile(costsFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" || f[0] == "device" {
			continue
		}
		require.Len(t, f, 4+len(costColumns), line)
		l := costLine{}
		for i, c := range costColumns {
			l[c] = f[4+i]
		}
		lines[strings.Join(f[:4], " ")] = l
	}
	return lines
}

// putCosts writes columns of the table anew and leaves the others.
func putCosts(t *testing.T, found map[string]costLine) {
	t.Helper()
	old := map[string]costLine{}
	if _, err := os.Stat(costsFile); err == nil {
		old = readCosts(t)
	}
	var b strings.Builder
	b.WriteString(costsHead)
	row := func(cells ...string) {
		for i, c := range cells {
			if i == len(cells)-1 {
				fmt.Fprintln(&b, c)
			} else {
				fmt.Fprintf(&b, "%-*s", []int{8, 7, 9, 8, 20, 8, 7, 8, 7, 11, 8}[i], c)
			}
		}
	}
	row(append([]string{"device", "op", "bytes", "memory"}, costColumns...)...)
	for _, c := range costCases() {
		cells := strings.Fields(c.String())
		for _, col := range costColumns {
			cells = append(cells, cmp.Or(found[c.String()][col], old[c.String()][col], "-"))
		}
		row(cells...)
	}
	require.NoError(t, os.WriteFile(costsFile, []byte(b.String()), 0o644))
}

// fits reports whether a figure is what the table says.
func (l costLine) fits(col, got string) bool {
	most, bound := strings.CutPrefix(l[col], "<=")
	if !bound {
		return got == l[col]
	}
	var g, m float64
	_, err := fmt.Sscan(got+" "+most, &g, &m)
	return err == nil && g <= m
}

// summary is what the table is to say of a column that was measured so.
func summary(got []string) string {
	if slices.Min(got) == slices.Max(got) {
		return got[0]
	}
	var most, x float64
	for _, g := range got {
		_, _ = fmt.Sscan(g, &x)
		most = max(most, x)
	}
	return "<=" + figure(most)
}

// roughly is what the table is to say of hops: there are some where packets wait for room, and between
// one pair of endpoints 11 may, between another 35, as their turns fall.
func roughly(got []string) string {
	var most, x float64
	for _, g := range got {
		_, _ = fmt.Sscan(g, &x)
		most = max(most, x)
	}
	return "<=" + figure(4*most)
}

// figure is a number as the table has it.
func figure(x float64) string {
	if math.Abs(x-math.Round(x)) < 0.005 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// TestCosts counts what operations cost and compares it with the table: a change that makes
// one more packet or one more copy fails here, on a machine of any speed. On a busy machine the
// shard's helper may take a turn in between, and packets go in other batches; then
// it counts again.
func TestCosts(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	want := map[string]costLine{}
	if !*writeCosts {
		want = readCosts(t)
	}
	found := map[string]costLine{}
	for _, device := range costDevices {
		t.Run(device, func(t *testing.T) {
			if *writeCosts {
				surveyCosts(t, device, found)
				return
			}
			p, err := openCostPair(device, t.TempDir())
			require.NoError(t, err)
			defer func() { require.NoError(t, p.close()) }()
			for _, c := range costCases() {
				if c.device == device {
					require.NoError(t, p.warmUp(c))
					p.compare(t, c, want[c.String()])
				}
			}
		})
	}
	if *writeCosts {
		putCosts(t, found)
	}
}

// surveyCosts measures each case of a device many times, between several pairs of endpoints.
func surveyCosts(t *testing.T, device string, found map[string]costLine) {
	all := map[string]map[string][]string{}
	for range 10 {
		p, err := openCostPair(device, t.TempDir())
		require.NoError(t, err)
		for _, c := range costCases() {
			if c.device != device {
				continue
			}
			require.NoError(t, p.warmUp(c))
			if all[c.String()] == nil {
				all[c.String()] = map[string][]string{}
			}
			for range 5 {
				for col, x := range p.measure(t, c) {
					all[c.String()][col] = append(all[c.String()][col], x)
				}
			}
		}
		require.NoError(t, p.close())
	}
	for c, cols := range all {
		found[c] = costLine{}
		for col, got := range cols {
			found[c][col] = summary(got)
			if col == "hops" && slices.Max(got) != "0" {
				found[c][col] = roughly(got)
			}
		}
	}
}

// compare measures until each column has once been as the table has it.
func (p *costPair) compare(t *testing.T, c costCase, want costLine) {
	var got costLine
	missing := slices.DeleteFunc(slices.Clone(costColumns), func(col string) bool { return col == "calls" || col == "polls" })
	for range 50 {
		got = p.measure(t, c)
		if missing = slices.DeleteFunc(missing, func(col string) bool { return want.fits(col, got[col]) }); len(missing) == 0 {
			return
		}
	}
	for _, col := range missing {
		t.Errorf("%s: %s %s, %s says %q", c, col, got[col], costsFile, want[col])
	}
}

// measure does some operations and says what one took.
func (p *costPair) measure(t *testing.T, c costCase) costLine {
	line := costLine{}
	err := error(nil)
	line["allocs"] = figure(testing.AllocsPerRun(c.batch(), func() { err = cmp.Or(err, p.once(c)) }))
	require.NoError(t, err)
	hops, moved, posts, rung := p.counted(t)
	for range c.batch() {
		require.NoError(t, p.once(c))
	}
	hops1, moved1, posts1, rung1 := p.counted(t)
	n := float64(c.batch())
	line["protocol"] = strings.ReplaceAll(p.protocol.String(), " ", "-")
	line["hops"] = figure(float64(hops1-hops) / n)
	line["copies"] = figure(float64(moved1-moved) / n / float64(c.size))
	line["posts"] = figure(float64(posts1-posts) / n)
	line["doorbells"] = figure(float64(rung1-rung) / n)
	return line
}

// counted reads the counters of both sides.
func (p *costPair) counted(t *testing.T) (hops, moved, posts, rung uint64) {
	for _, s := range p.sides {
		stats, err := s.ep.Stats(context.Background())
		require.NoError(t, err)
		moved += stats["Queue.SendBytes"] + stats["Queue.RDMABytes"] + stats["Copied"]
		hops += s.dom.Delivered()
		posts += s.bell.posted.Load()
		rung += s.bell.rung.Load()
	}
	return hops, moved, posts, rung
}

var costDevices = []string{"sim", "shm", "tcp"}

// costCase is an operation whose costs are counted.
type costCase struct {
	device, op string
	size       int
	memory     string
}

func (c costCase) String() string {
	return fmt.Sprintf("%s %s %d %s", c.device, c.op, c.size, c.memory)
}

// batch is how many of it are counted together.
func (c costCase) batch() int {
	if c.size > 100_000 {
		return 4
	}
	return 16
}

func costCases() (cs []costCase) {
	for _, dev := range costDevices {
		for _, op := range []string{"send", "write", "read"} {
			for _, size := range []int{8, 4 << 10, 16 << 10, 64 << 10, 1 << 20} {
				for _, memory := range []string{"slice", "Alloc"} {
					cs = append(cs, costCase{dev, op, size, memory})
				}
			}
		}
	}
	return cs
}

// bell is a device that counts the work requests and the doorbells of its queue pairs.
type bell struct {
	efa.Device
	rung, posted atomic.Uint64
}

type bellQP struct {
	device.QP
	d *bell
}

func (d *bell) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &bellQP{qp, d}, err
}

func (q *bellQP) Doorbell() {
	q.d.rung.Add(1)
	q.QP.Doorbell()
}

func (q *bellQP) PostSend(wr *device.SendWR) error {
	err := q.QP.PostSend(wr)
	if err == nil {
		q.d.posted.Add(1)
	}
	return err
}

// costSide is an endpoint on a device that counts, with the memory of its operations.
type costSide struct {
	bell   *bell
	fab    *efa.Fabric
	dom    *efa.Domain
	q      *efa.Queue
	ep     *efa.Endpoint
	peer   efa.Addr
	mr     *efa.MemoryRegion
	slices []byte
	cs     [8]efa.Completion
}

// costPair is two of them in one process, for which one goroutine works.
type costPair struct {
	sides    [2]*costSide
	protocol efa.Protocol // of the last operation
}

func openCostPair(kind, dir string) (*costPair, error) {
	fabric, err := sim.New(sim.Config{InOrder: true})
	if err != nil {
		return nil, err
	}
	open := map[string]func() (efa.Device, error){
		"sim": func() (efa.Device, error) {
			return fabric.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true})
		},
		"shm": func() (efa.Device, error) { return shm.Open(shm.Config{Dir: filepath.Join(dir, "fabric")}) },
		"tcp": func() (efa.Device, error) { return tcp.Open(tcp.Config{}) },
	}[kind]
	p := new(costPair)
	for i := range p.sides {
		dev, err := open()
		if err != nil {
			return nil, err
		}
		if p.sides[i], err = openCostSide(&bell{Device: dev}); err != nil {
			return nil, err
		}
	}
	a, b := p.sides[0], p.sides[1]
	if a.peer, err = a.ep.AddressVector().Insert(b.ep.Address()); err != nil {
		return nil, err
	}
	if b.peer, err = b.ep.AddressVector().Insert(a.ep.Address()); err != nil {
		return nil, err
	}
	// Each learns from the other's HANDSHAKE what it can do.
	for range p.sides {
		if err := p.warmUp(costCase{kind, "send", 8, "slice"}); err != nil {
			return nil, err
		}
		p.sides[0], p.sides[1] = p.sides[1], p.sides[0]
	}
	return p, nil
}

func openCostSide(dev *bell) (*costSide, error) {
	s := &costSide{bell: dev, slices: make([]byte, 1<<20)}
	var err error
	if s.fab, err = efa.Open(efa.Config{Device: dev}); err != nil {
		return nil, err
	}
	if s.dom, err = s.fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual}); err != nil {
		return nil, err
	}
	if s.q, err = s.dom.NewQueue(64); err != nil {
		return nil, err
	}
	if s.ep, err = s.dom.NewEndpoint(efa.EndpointConfig{SendQueue: s.q, RecvQueue: s.q}); err != nil {
		return nil, err
	}
	if s.mr, err = s.dom.Alloc(len(s.slices), remote|efa.AccessSend|efa.AccessRecv); err != nil {
		return nil, err
	}
	return s, s.ep.Enable(context.Background())
}

func (p *costPair) close() error {
	var errs []error
	for _, s := range p.sides {
		errs = append(errs, s.mr.Close(), s.ep.Close())
	}
	for _, s := range p.sides {
		errs = append(errs, s.dom.Close(), s.fab.Close(), s.bell.Close())
	}
	return errors.Join(errs...)
}

func (s *costSide) buffer(c costCase) []byte {
	if c.memory == "Alloc" {
		return s.mr.Bytes()[:c.size]
	}
	return s.slices[:c.size]
}

// warmUp does it until nothing more happens for the first time.
func (p *costPair) warmUp(c costCase) error {
	for range 5 * c.batch() {
		if err := p.once(c); err != nil {
			return err
		}
	}
	return nil
}

// once does one operation, from its posting to the last completion of both sides.
func (p *costPair) once(c costCase) error {
	a, b := p.sides[0], p.sides[1]
	ended := [2]int{1, 0}
	var err error
	switch c.op {
	case "send":
		if _, err = b.ep.PostRecv(&efa.RecvReq{Buf: b.buffer(c)}); err != nil {
			return err
		}
		ended[1] = 1
		_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: a.buffer(c)})
	case "write":
		_, err = a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: b.mr.Remote(), Buf: a.buffer(c), Level: efa.Delivered})
	case "read":
		_, err = a.ep.PostRead(&efa.ReadReq{From: a.peer, At: b.mr.Remote(), Buf: a.buffer(c)})
	}
	if err != nil {
		return err
	}
	for began := clock.System.Now(); ended[0] > 0 || ended[1] > 0; {
		for i, s := range p.sides {
			n := s.q.TryRead(s.cs[:])
			ended[i] -= n
			for j := range s.cs[:n] {
				if err := s.cs[j].Err; err != nil {
					return err
				}
				p.protocol = s.cs[j].Protocol
			}
		}
		if clock.System.Now().Sub(began) > time.Minute {
			return fmt.Errorf("%s: no outcome within a minute", c)
		}
	}
	return nil
}
