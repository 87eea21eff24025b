package endpoint_test

import (
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// open starts the endpoint under test, with peers in its address vector.
//
//	known        HANDSHAKE went both ways already
//	all          the endpoint has all features that its device allows, and so do
//	             the peers; without it both want a connid and nothing else
//	features     what the endpoint advertises instead, knows what the peers do
//	family       device_version of the peers' HANDSHAKE
//	rdmaread, rdmawrite, localkeys, unsolicited, maxrdma
//	             what the device can do; rdma is the first two
//	pulse        a completion is no sign of the peer's life, a beat is
//	holdsback    it can hold one peer back
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
				MsgIDBase: uint32(num(d, "base")), WaitHandshake: d.HasArg("wait"),
				Settings: settings.Settings{
					MaxStrangers: num(d, "strangers"), SendQueue: num(d, "sq"), RecvQueue: num(d, "rq"), DetachLimit: num(d, "detach"),
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
		cfg.Endpoint.Settings.Era = talk
	}
	ours := wire.MakeFeatures(wire.FeatureConnIDHeader)
	if d.HasArg("all") {
		ours = new(settings.Settings).Features(&cfg.Info)
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
		HasDeviceVersion: d.HasArg("family"), DeviceVersion: uint32(num(d, "family")),
	}
	require.True(s.t, s.rig.Inject(x, h.Append(nil)))
	s.rig.Run()
	for _, p := range s.rig.QP.Flying() {
		s.rig.QP.Complete(p, device.StatusOK)
	}
	s.rig.Run()
}
