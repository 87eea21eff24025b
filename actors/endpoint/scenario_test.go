package endpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/eratest"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// TestScenarios runs testdata/*.txt: protocol flows as text, with the endpoint
// under test ("me") on one side and the file on the other.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			require.LessOrEqual(t, strings.Count(string(text), "\n"), 100, "a scenario fits a page")
			require.True(t, strings.HasPrefix(string(text), "# "), "a comment on top says what it is about")
			s := &scenario{t: t}
			defer s.end()
			datadriven.RunTest(t, f, func(_ *testing.T, d *datadriven.TestData) string {
				got := s.run(d)
				if !ordered && sorted(got) == sorted(d.Expected) {
					return d.Expected
				}
				return got
			})
		})
	}
}

// TestScenariosQueued plays the same files with every message between actors sent
// through the ring, so that each operation waits at each step: the packets and the
// outcomes are the same, but for their order among different operations. What shows the
// inside of the endpoint is not compared.
func TestScenariosQueued(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			s := &scenario{t: t, queue: true}
			defer s.end()
			datadriven.RunTest(t, f, func(_ *testing.T, d *datadriven.TestData) string {
				got := s.run(d)
				if inside[d.Cmd] || sorted(got) == sorted(d.Expected) {
					return d.Expected
				}
				return got
			})
		})
	}
}

// inside are the commands that show counters and machines.
var inside = map[string]bool{"ops": true, "counters": true, "spans": true, "hops": true, "snapshot": true}

func sorted(lines string) string {
	l := strings.Split(strings.TrimSpace(lines), "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

type scenario struct {
	t     *testing.T
	rig   *script.Rig
	queue bool
	seen  peer.Counters
	hosts byte
	spans observed

	panics uint64 // that are wanted

	unfinished bool // what follows is no more of interest
}

// end closes the endpoint, and checks what holds of every flow.
func (s *scenario) end() {
	if s.rig == nil {
		return
	}
	s.quiet()
	require.NoError(s.t, s.rig.Close())
	require.Empty(s.t, s.rig.Ends(), "outcomes")
	require.Empty(s.t, s.rig.QP.Faults)
	require.Equal(s.t, s.panics, s.rig.Shard.Stats().Failures, "panics")
	require.Empty(s.t, s.rig.Leaks())
}

// quiet checks that every operation has ended and nothing is held. Flows that end
// in the middle say so.
func (s *scenario) quiet() {
	s.rig.Run()
	if s.rig.QP.Closed() || s.unfinished {
		return
	}
	ops := s.rig.EP.Operations()
	require.Len(s.t, ops, 1, "unfinished?")
	require.Contains(s.t, ops[0], " unexpected=0 held=0", "unfinished?")
	require.Empty(s.t, s.rig.QP.Flying(), "unfinished?")
	s.rig.EP.GiveBackSlots()
	free, depth := s.rig.EP.Room()
	require.Equal(s.t, depth, free, "packet entries")
	require.Equal(s.t, s.rig.QP.RecvSlots(), s.rig.QP.Posted(), "receive slots")
	require.Empty(s.t, s.rig.Leaks())
}

// run carries out one command and returns what happened. With the argument quiet
// it returns nothing, for what only prepares the flow.
func (s *scenario) run(d *datadriven.TestData) string {
	out := s.command(d)
	if log := s.log(); log != "" {
		out = log + out
	}
	switch {
	case d.HasArg("quiet"):
		return ""
	case out == "":
		return "ok"
	}
	return out
}

func (s *scenario) log() string {
	if s.rig == nil {
		return ""
	}
	if l := s.rig.TakeLog(); l != "" {
		return l + "\n"
	}
	return ""
}

func (s *scenario) command(d *datadriven.TestData) string {
	switch d.Cmd {
	case "endpoint":
		// Opens the endpoint under test; see open.
		//
		//	endpoint peers=(a,b) known mtu=1000 medium=3000 credits=2 sq=8 auto
		s.open(d)
		return ""
	case "auto":
		// Turns automatic completion on or off.
		//
		//	auto off
		s.rig.Auto = !d.HasArg("off")
	case "peer":
		// A remote endpoint, in the address vector unless it is a stranger. host
		// and qpn say where it is, by default on a host of its own.
		//
		// With knows or family (its device_version), HANDSHAKE went both ways.
		//
		//	peer a
		//	peer a2 host=1 qpn=1 connid=0xa2 stranger
		//	peer old knows=(0,1,3) family=0xefa0
		s.peer(d)
	case "insert", "enter", "remove":
		// Puts a remote endpoint into the address vector, or takes it out.
		// enter: the endpoint isn't told yet.
		//
		//	insert a
		switch x := s.remote(d); d.Cmd {
		case "insert":
			s.rig.Insert(x)
		case "enter":
			s.rig.Enter(x)
		default:
			s.rig.Remove(x)
		}
	case "inject":
		// Packets that arrive together, one a line: sender, type, fields. DATA has no
		// headers, and comes to the queue pair for receives. LEFT: it was closed after that.
		//
		//	inject
		//	a EAGER_MSGRTM msg_id=0 raw_addr len=10
		//	a HANDSHAKE features=3 connid
		//	a DATA len=10 seed=3 imm=7
		return s.inject(d)
	case "complete", "rnr", "fail":
		// Ends packets that the device has: all, the N-th oldest or newest (-N)
		// of them, or those of a type; with success, RNR, or a status. With next the endpoint
		// sees that only together with what the next command does.
		//
		//	complete
		//	rnr 3
		//	complete -1
		//	fail EAGER_MSGRTM status=9
		//	fail status=9 next
		return s.complete(d)
	case "refuse":
		// The device refuses the next posts, the first few left out, or the next address handles.
		//
		//	refuse count=2 after=1
		//	refuse handles count=2
		if d.HasArg("handles") {
			s.rig.QP.RefuseAHs = max(num(d, "count"), 1)
			break
		}
		for range num(d, "after") {
			s.rig.QP.Refuse(nil)
		}
		for range max(num(d, "count"), 1) {
			s.rig.QP.Refuse(script.ErrRefused)
		}
	case "gone":
		// The device reports the death of a remote endpoint's process, or that it closed.
		//
		//	gone a
		//	gone a left
		a := s.remote(d).Addr
		if d.HasArg("left") {
			s.rig.QP.Left(a.GID(), a.QPN(), a.ConnID())
		} else {
			s.rig.QP.Gone(a.GID(), a.QPN(), a.ConnID())
		}
	case "beat":
		// The processes of all peers run, as the device sees.
		//
		//	beat
		s.rig.QP.Beats++
	case "advance":
		// Moves the clock.
		//
		//	advance 5ms
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(s.t, err, d.Pos)
		s.rig.Advance(dur)
	case "close":
		// Closes the endpoint.
		//
		//	close
		s.rig.BeginClose()
	case "unfinished":
		// Ends a flow in the middle: operations are in progress.
		//
		//	unfinished
		s.unfinished = true
	case "ops":
		// Shows the operations in use, the receives posted and the memory held.
		//
		//	ops
		s.rig.Run()
		return strings.Join(s.rig.EP.Operations(), "\n")
	case "slots":
		// Shows how many receive slots the device has.
		//
		//	slots
		return fmt.Sprintf("%d of %d posted", s.rig.QP.Posted(), s.rig.QP.RecvSlots())
	case "held":
		// Shows which queue pairs the device holds back, and which it has shut out.
		//
		//	held
		lines := s.rig.QP.HeldBack
		for _, out := range s.rig.QP.ShutOut {
			lines = append(lines[:len(lines):len(lines)], out+" is shut out")
		}
		return strings.Join(lines, "\n")
	case "spans":
		// Shows the spans that have ended since the last time, of an endpoint with
		// traced.
		//
		//	spans
		return s.ended()
	case "panic":
		// Makes the peer that looks for an operation next, the endpoint, or what gives
		// the outcome of an operation panic.
		//
		//	panic peer
		//	panic endpoint
		//	panic s2
		s.panic(d.CmdArgs[0].Key)
	case "counters":
		// Shows the counters that moved since the last time.
		//
		//	counters
		return s.counters()
	default:
		if out, ok := s.memory(d); ok {
			return out
		}
		if !s.operation(d) {
			s.t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
		}
	}
	s.rig.Run()
	return ""
}

func (s *scenario) peer(d *datadriven.TestData) {
	s.hosts++
	host, qpn, connid := s.hosts, 1, 0xa0+int(s.hosts)
	if d.HasArg("host") {
		host = byte(num(d, "host"))
	}
	if d.HasArg("qpn") {
		qpn = num(d, "qpn")
	}
	if d.HasArg("connid") {
		connid = num(d, "connid")
	}
	x := script.NewRemote(d.CmdArgs[0].Key, host, uint16(qpn), uint32(connid))
	s.rig.AddRemote(x)
	if !d.HasArg("stranger") {
		s.rig.Insert(x)
	}
	if d.HasArg("knows") || d.HasArg("family") {
		s.greet(d, x, s.features(d, "knows"))
	}
}

func (s *scenario) inject(d *datadriven.TestData) string {
	lost := ""
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		x := s.rig.Remote(f[0])
		require.NotNil(s.t, x, "%s: %s", d.Pos, line)
		if f[1] == "LEFT" {
			s.rig.QP.Left(x.Addr.GID(), x.Addr.QPN(), x.Addr.ConnID())
			continue
		}
		b, err := s.rig.Packet(x, f[1:])
		require.NoError(s.t, err, d.Pos)
		if !s.rig.QP.Arrive(x.Addr.GID(), x.Addr.QPN(), d.HasArg("nogid"), b) {
			lost += "no receive posted for: " + line + "\n"
		}
	}
	s.rig.Run()
	return lost
}

func (s *scenario) complete(d *datadriven.TestData) string {
	status := device.StatusOK
	switch d.Cmd {
	case "rnr":
		status = device.StatusRNR
	case "fail":
		status = device.Status(num(d, "status"))
	}
	n, flying := 0, s.rig.QP.Flying()
	for i, p := range flying {
		want := "all"
		if len(d.CmdArgs) > 0 && !slices.Contains([]string{"status", "quiet", "next"}, d.CmdArgs[0].Key) {
			want = d.CmdArgs[0].Key
		}
		switch want {
		case "all", kindOf(p), strconv.Itoa(i + 1), strconv.Itoa(i - len(flying)):
			s.rig.QP.Complete(p, status)
			n++
		}
	}
	if !d.HasArg("next") {
		s.rig.Run()
	}
	if n == 0 {
		return "no such packet under way"
	}
	return ""
}

// kindOf is the type of a packet or request, as complete names it.
func kindOf(p *script.Sent) string {
	switch {
	case p.Kind == device.WRRead:
		return "RDMA_READ"
	case p.Kind == device.WRWrite:
		return "RDMA_WRITE"
	case p.NoHeader:
		return "DATA"
	default:
		return wire.Type(p.Bytes[0]).String()
	}
}

// counters lists what moved of peer.Counters but for packets by type and bytes.
func (s *scenario) counters() string {
	var out []string
	now := *s.rig.EP.Counters()
	for i, f := range reflect.VisibleFields(reflect.TypeOf(now)) {
		if f.Type.Kind() != reflect.Uint64 || f.Name == "Copied" {
			continue
		}
		a, b := reflect.ValueOf(s.seen).Field(i).Uint(), reflect.ValueOf(now).Field(i).Uint()
		if a != b {
			out = append(out, fmt.Sprintf("%s=%d", f.Name, b-a))
		}
	}
	s.seen = now
	return strings.Join(out, " ")
}

func (s *scenario) remote(d *datadriven.TestData) *script.Remote {
	x := s.rig.Remote(d.CmdArgs[0].Key)
	require.NotNil(s.t, x, "%s: no peer %s", d.Pos, d.CmdArgs[0].Key)
	return x
}

func num(d *datadriven.TestData, name string) int {
	a, ok := d.Arg(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(a.Vals[0], 0, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
	}
	return int(n)
}

// open starts the endpoint under test, with peers in its address vector.
//
//	known        HANDSHAKE went both ways already
//	all          the endpoint has all features that its device allows, and so do
//	             the peers; without it both want a connid and nothing else
//	features     what the endpoint advertises instead, knows what the peers do
//	family       device_version of the peers' HANDSHAKE, which says else that they are efactor on software
//	libfabric    of one of an unknown device: only efactor gets PEER_ERROR for requests for memory
//	rdmaread, rdmawrite, localkeys, unsolicited, maxrdma
//	             what the device can do; rdma is the first two
//	pulse        a completion is no sign of the peer's life, a beat is
//	holdsback    it can hold one peer back, and shut one out
//	part         its part id, 0xefa2 if not said
//	auto         it completes everything at once with success
//	late         it reads payloads only then
//	wait         every first packet waits for HANDSHAKE
//	order        the orders of the endpoint, by name (settings.Order)
//	unordered    it keeps no order of what it receives
//	homogeneous  all peers have the features of the endpoint
//	traced       its trail is followed
//	refuse       what peers may not do to memory through it: reads, writes, atomics
//	counts, served
//	             what it says of peers' accesses; see target
//	pool         it has a pool of receives, in which recv with pool posts
//	era          it behaves as this release
//	minread, minwrite, runt, segment, medium, credits, detach
//	             policy
func (s *scenario) open(d *datadriven.TestData) {
	rdma := d.HasArg("rdma")
	cfg := script.Config{
		Queue: s.queue,
		Info: device.Info{
			MTU: num(d, "mtu"), CopiesAtPost: !d.HasArg("late"), PartID: 0xefa2, MaxRDMA: num(d, "maxrdma"),
			RDMARead: rdma || d.HasArg("rdmaread"), RDMAWrite: rdma || d.HasArg("rdmawrite"),
			LocalKeys: d.HasArg("localkeys"), UnsolicitedWrite: d.HasArg("unsolicited"),
			Pulse: d.HasArg("pulse"), HoldsBack: d.HasArg("holdsback"),
		},
		Seed: uint64(num(d, "seed")),
		Endpoint: endpoint.Config{
			Settings: settings.InForce{
				Knobs: settings.Knobs{FirstMsgID: uint32(num(d, "base")), WaitHandshake: d.HasArg("wait")},
				Settings: settings.Settings{
					MaxUnlistedPeers: num(d, "strangers"), SendQueue: num(d, "sq"), RecvQueue: num(d, "rq"), DetachLimit: num(d, "detach"),
					MaxMedium: num(d, "medium"), Credits: num(d, "credits"), MinRead: num(d, "minread"),
					MinReadWrite: num(d, "minwrite"), RuntSize: num(d, "runt"), ReadSegment: num(d, "segment"),
					RecvWindow: num(d, "window"), Homogeneous: d.HasArg("homogeneous"),
					PeerMemory: int64(num(d, "peermemory")), TotalMemory: int64(num(d, "memory")),
					RNRMax: time.Duration(num(d, "rnrmax")) * time.Microsecond,
				},
			},
		},
	}
	if d.HasArg("part") {
		cfg.Info.PartID = uint32(num(d, "part"))
	}
	cfg.Endpoint.Settings.Unordered = d.HasArg("unordered")
	if a, ok := d.Arg("order"); ok {
		for _, name := range a.Vals {
			cfg.Endpoint.Settings.Order |= orderOf(s.t, name)
		}
	}
	if a, ok := d.Arg("era"); ok {
		talk, ok := era.Of(a.Vals[0])
		require.True(s.t, ok, d.Pos)
		eratest.Adopt(&cfg.Endpoint.Settings, &talk)
	}
	ours := wire.MakeFeatures(wire.FeatureConnIDHeader)
	if d.HasArg("all") {
		ours = settings.Features(new(settings.Settings), &cfg.Info)
	}
	theirs := ours
	if d.HasArg("features") {
		ours = s.features(d, "features")
	}
	if d.HasArg("knows") {
		theirs = s.features(d, "knows")
	}
	cfg.Endpoint.Settings.Features = ours
	if d.HasArg("traced") {
		cfg.Endpoint.Trail = s.observe()
	}
	if a, ok := d.Arg("refuse"); ok {
		for _, v := range a.Vals {
			cfg.Endpoint.Refuse |= map[string]endpoint.Refusals{
				"reads": endpoint.RefuseReads, "writes": endpoint.RefuseWrites, "atomics": endpoint.RefuseAtomics,
			}[v]
		}
	}
	s.target(d, &cfg.Endpoint)
	cfg.Pool = d.HasArg("pool")
	var err error
	s.rig, err = script.Start(cfg)
	require.NoError(s.t, err)
	if a, ok := d.Arg("peers"); ok {
		for _, name := range a.Vals {
			s.hosts++
			x := script.NewRemote(name, s.hosts, 1, 0xa0+uint32(s.hosts))
			s.rig.AddRemote(x)
			s.rig.Insert(x)
			if d.HasArg("known") {
				s.greet(d, x, theirs)
			}
		}
	}
	s.rig.Auto = d.HasArg("auto")
	s.rig.TakeLog()
	s.seen = *s.rig.EP.Counters()
}

// orderOf finds an order by its name.
func orderOf(t require.TestingT, name string) settings.Order {
	for o := settings.Order(1); o <= settings.AllOrders; o <<= 1 {
		if o.String() == name {
			return o
		}
	}
	require.Fail(t, "no order", name)
	return 0
}

// features reads a list of their numbers.
func (s *scenario) features(d *datadriven.TestData, name string) (f wire.Features) {
	a, _ := d.Arg(name)
	for _, v := range a.Vals {
		n, err := strconv.Atoi(v)
		require.NoError(s.t, err, d.Pos)
		f.Set(wire.Feature(n))
	}
	return f
}

// greet lets HANDSHAKE go both ways.
func (s *scenario) greet(d *datadriven.TestData, x *script.Remote, f wire.Features) {
	h := wire.Handshake{
		Features: f, HasConnID: true, ConnID: x.Addr.ConnID(),
		HasDeviceVersion: !d.HasArg("libfabric") || d.HasArg("family"), DeviceVersion: uint32(num(d, "family")),
	}
	require.True(s.t, s.rig.Inject(x, h.Append(nil)))
	s.rig.Run()
	for _, p := range s.rig.QP.Flying() {
		s.rig.QP.Complete(p, device.StatusOK)
	}
	s.rig.Run()
}
