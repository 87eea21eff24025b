package endpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
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
			datadriven.RunTest(t, f, func(_ *testing.T, d *datadriven.TestData) string { return s.run(d) })
		})
	}
}

type scenario struct {
	t     *testing.T
	rig   *script.Rig
	seen  peer.Counters
	hosts byte
}

// end closes the endpoint, and checks what holds of every flow.
func (s *scenario) end() {
	if s.rig == nil {
		return
	}
	require.NoError(s.t, s.rig.Close())
	require.Empty(s.t, s.rig.Ends(), "outcomes")
	require.Empty(s.t, s.rig.QP.Faults)
	require.Zero(s.t, s.rig.Shard.Stats().Failures, "panics")
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
		// Opens the endpoint under test, with peers in its address vector. known:
		// HANDSHAKE went both ways already, and they want a connid; auto: the
		// device completes everything at once with success; late: it reads
		// payloads only then; wait: every first packet waits for HANDSHAKE.
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
		//	peer a
		//	peer a2 host=1 qpn=1 connid=0xa2 stranger
		s.peer(d)
	case "insert", "enter", "remove":
		// Puts a remote endpoint into the address vector, or takes it out.
		// enter: the endpoint isn't told yet.
		//
		//	insert a
		switch x := s.remote(d, 0); d.Cmd {
		case "insert":
			s.rig.Insert(x)
		case "enter":
			s.rig.Enter(x)
		default:
			s.rig.Remove(x)
		}
	case "send":
		// Submits sends.
		//
		//	send a len=100
		//	send a len=100 tag=5 data=0x77 count=3
		for range max(num(d, "count"), 1) {
			s.rig.Send(s.remote(d, 0), num(d, "len"), flags(d), uint64(num(d, "tag")), uint64(num(d, "data")))
		}
	case "recv":
		// Posts receives, from anybody unless told otherwise.
		//
		//	recv len=100
		//	recv from=a len=100 tag=4 ignore=1 count=2
		var from *script.Remote
		if a, ok := d.Arg("from"); ok {
			from = s.rig.Remote(a.Vals[0])
		}
		for range max(num(d, "count"), 1) {
			s.rig.Recv(from, num(d, "len"), flags(d), uint64(num(d, "tag")), uint64(num(d, "ignore")))
		}
	case "inject":
		// Packets that arrive together, one a line: sender, type, fields.
		//
		//	inject
		//	a EAGER_MSGRTM msg_id=0 raw_addr len=10
		//	a HANDSHAKE features=3 connid
		return s.inject(d)
	case "complete", "rnr", "fail":
		// Ends packets that the device has: all, the N-th oldest or newest (-N)
		// of them, or those of a type; with success, RNR, or a status.
		//
		//	complete
		//	rnr 3
		//	complete -1
		//	fail EAGER_MSGRTM status=9
		return s.complete(d)
	case "refuse":
		// The device refuses the next posts.
		//
		//	refuse count=2
		for range max(num(d, "count"), 1) {
			s.rig.QP.Refuse(script.ErrRefused)
		}
	case "gone":
		// The device reports the death of a remote endpoint's process.
		//
		//	gone a
		a := s.remote(d, 0).Addr
		s.rig.QP.Gone(a.GID(), a.QPN(), a.ConnID())
	case "cancel":
		// Cancels an operation.
		//
		//	cancel r2
		s.rig.Cancel(s.rig.Op(d.CmdArgs[0].Key))
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
	case "counters":
		// Shows the counters that moved since the last time.
		//
		//	counters
		return s.counters()
	default:
		s.t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
	}
	s.rig.Run()
	return ""
}

func (s *scenario) open(d *datadriven.TestData) {
	cfg := script.Config{
		Info: device.Info{MTU: num(d, "mtu"), CopiesAtPost: !d.HasArg("late"), PartID: 0xefa2},
		Seed: uint64(num(d, "seed")),
		Endpoint: endpoint.Config{
			SQ: num(d, "sq"), RQ: num(d, "rq"),
			Policy:       ope.Policy{MaxMedium: num(d, "medium"), Credits: num(d, "credits")},
			MaxStrangers: num(d, "strangers"),
			Peer: peer.Config{
				RecvWindow: num(d, "window"), MsgIDBase: uint32(num(d, "base")),
				PeerMemory: int64(num(d, "peermemory")), TotalMemory: int64(num(d, "memory")),
				RNRMax:   time.Duration(num(d, "rnrmax")) * time.Microsecond,
				Features: wire.MakeFeatures(wire.FeatureConnIDHeader), WaitHandshake: d.HasArg("wait"),
			},
		},
	}
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
				s.greet(x)
			}
		}
	}
	s.rig.Auto = d.HasArg("auto")
	s.rig.TakeLog()
	s.seen = *s.rig.EP.Counters()
}

// greet lets HANDSHAKE go both ways.
func (s *scenario) greet(x *script.Remote) {
	h := wire.Handshake{Features: wire.MakeFeatures(wire.FeatureConnIDHeader), HasConnID: true, ConnID: x.Addr.ConnID()}
	require.True(s.t, s.rig.Inject(x, h.Append(nil)))
	s.rig.Run()
	for _, p := range s.rig.QP.Flying() {
		s.rig.QP.Complete(p, device.StatusOK)
	}
	s.rig.Run()
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
}

func (s *scenario) inject(d *datadriven.TestData) string {
	lost := ""
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		x := s.rig.Remote(f[0])
		require.NotNil(s.t, x, "%s: %s", d.Pos, line)
		b, err := script.Packet(x, f[1:])
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
		if len(d.CmdArgs) > 0 && d.CmdArgs[0].Key != "status" && d.CmdArgs[0].Key != "quiet" {
			want = d.CmdArgs[0].Key
		}
		switch want {
		case "all", wire.Type(p.Bytes[0]).String(), strconv.Itoa(i + 1), strconv.Itoa(i - len(flying)):
			s.rig.QP.Complete(p, status)
			n++
		}
	}
	s.rig.Run()
	if n == 0 {
		return "no such packet under way"
	}
	return ""
}

// counters lists what moved of peer.Counters, packets by type left out.
func (s *scenario) counters() string {
	var out []string
	now := *s.rig.EP.Counters()
	for i, f := range reflect.VisibleFields(reflect.TypeOf(now)) {
		if f.Type.Kind() != reflect.Uint64 {
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

func (s *scenario) remote(d *datadriven.TestData, arg int) *script.Remote {
	x := s.rig.Remote(d.CmdArgs[arg].Key)
	require.NotNil(s.t, x, "%s: no peer %s", d.Pos, d.CmdArgs[arg].Key)
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

func flags(d *datadriven.TestData) ope.Flags {
	var f ope.Flags
	if d.HasArg("tag") {
		f |= ope.Tagged
	}
	if d.HasArg("data") {
		f |= ope.HasData
	}
	return f
}
