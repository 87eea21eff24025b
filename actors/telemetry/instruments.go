package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
)

// InstrumentKind is the type of an instrument.
type InstrumentKind uint8

// The kinds of instrument.
const (
	Counter InstrumentKind = iota // grows
	Level                         // goes up and down
	Seconds                       // a Counter of time
	Histogram
)

var kindNames = [...]string{Counter: "counter", Level: "up-down counter", Seconds: "counter", Histogram: "histogram"}

// String is OpenTelemetry's name of the kind.
func (k InstrumentKind) String() string { return kindNames[k] }

// Instrument is one of the metrics.
type Instrument struct {
	Name  string
	Kind  InstrumentKind
	Unit  string
	Attrs []attribute.Key // besides those of Of
	Text  string

	// One of them, but for a Histogram.
	observe func(*totals, observe)
	device  func(*endpoint.PathSample) int64
	fabric  func(open, all int64) int64 // of memory regions
}

// Of is what the instrument has a series for.
func (i *Instrument) Of() string {
	switch {
	case i.device != nil:
		return "device, endpoint"
	case i.fabric != nil:
		return "fabric"
	default:
		return "endpoint"
	}
}

// observe reports a value to OpenTelemetry.
type observe func(v int64, attrs ...attribute.KeyValue)

const durationName = "messaging.client.operation.duration"

func instrument(name string) *Instrument {
	i := slices.IndexFunc(Instruments, func(x Instrument) bool { return x.Name == name })
	return &Instruments[i]
}

// by is a list of attributes.
func by(keys ...attribute.Key) []attribute.Key { return keys }

// count is a counter without attributes.
func count(name, unit, text string, get func(*totals) uint64) Instrument {
	return Instrument{Name: name, Unit: unit, Text: text, observe: func(t *totals, o observe) { o(int64(get(t))) }}
}

// level is a level without attributes.
func level(name, unit, text string, get func(*totals) int64) Instrument {
	return Instrument{Name: name, Kind: Level, Unit: unit, Text: text, observe: func(t *totals, o observe) { o(get(t)) }}
}

// carried is a counter for each device.
func carried(name, unit, text string, get func(*endpoint.PathSample) uint64) Instrument {
	return Instrument{Name: name, Unit: unit, Text: text, device: func(p *endpoint.PathSample) int64 { return int64(get(p)) }}
}

// counts is a counter with attributes.
func counts(name, unit, text string, attrs []attribute.Key, f func(*totals, observe)) Instrument {
	return Instrument{Name: name, Unit: unit, Attrs: attrs, Text: text, observe: f}
}

// Instruments are all metrics. Those with names of EFA's own counters, behind efa.,
// mean the same.
var Instruments = []Instrument{
	counts("messaging.client.sent.messages", "{message}", "messages sent, failures included",
		by(attrSystem, attrOperation), messages(spanSend, ope.KindSend)),
	counts("messaging.client.consumed.messages", "{message}", "messages received, failures included",
		by(attrSystem, attrOperation), messages(spanReceive, ope.KindRecv, ope.KindTake)),
	{
		Name: durationName, Kind: Histogram, Unit: "s", Attrs: by(attrSystem, attrOperation, attrProtocol, attrErrorType),
		Text: "from an operation's beginning until the application has its outcome; of a receive, from when both it and its message were there",
	},
	counts("efa.operations", "{operation}", "operations of the application that are over; each message in a buffer for many is one, and each part of a list of more pieces of remote memory than a packet names", by(attrOperation, attrOutcome), (*totals).operations),
	counts("efa.operation.bytes", "By", "bytes that they moved", by(attrOperation), (*totals).moved),
	counts("efa.errors", "{operation}", "operations of the application that failed, by kind of error", by(attrErrorType), (*totals).failures),
	counts("efa.protocols", "{operation}", "subprotocols chosen here (sent), and by peers (received)", by(attrProtocol, attrDirection), (*totals).mixture),
	counts("efa.packets", "{packet}", "packets posted, those sent again included, and packets received, except for those dropped before parsing",
		by(attrPacketType, attrDirection), (*totals).packets),

	carried("efa.send_wrs", "{packet}", "packets posted", func(p *endpoint.PathSample) uint64 { return p.Sends }),
	carried("efa.send_bytes", "By", "bytes in them", func(p *endpoint.PathSample) uint64 { return p.SendBytes }),
	carried("efa.recv_wrs", "{packet}", "packets received", func(p *endpoint.PathSample) uint64 { return p.Recvs }),
	carried("efa.recv_bytes", "By", "bytes in them", func(p *endpoint.PathSample) uint64 { return p.RecvBytes }),
	carried("efa.rdma_read_wrs", "{request}", "RDMA reads posted", func(p *endpoint.PathSample) uint64 { return p.Reads }),
	carried("efa.rdma_read_bytes", "By", "bytes requested by them", func(p *endpoint.PathSample) uint64 { return p.ReadBytes }),
	count("efa.rdma_read_wr_err", "{request}", "RDMA reads that failed", func(t *totals) uint64 { return t.Queue.RDMAReadsFailed }),
	carried("efa.rdma_write_wrs", "{request}", "RDMA writes posted", func(p *endpoint.PathSample) uint64 { return p.Writes }),
	carried("efa.rdma_write_bytes", "By", "bytes in them", func(p *endpoint.PathSample) uint64 { return p.WriteBytes }),
	count("efa.rdma_write_wr_err", "{request}", "RDMA writes that failed", func(t *totals) uint64 { return t.Queue.RDMAWritesFailed }),
	count("efa.retrans_pkts", "{packet}", "packets sent again, here after RNR", func(t *totals) uint64 { return t.Queue.Resent }),
	count("efa.retrans_bytes", "By", "bytes in them", func(t *totals) uint64 { return t.Queue.ResentBytes }),
	count("efa.impaired_remote_conn_events", "{event}", "times that a peer entered back-off, so that less could be sent to it",
		func(t *totals) uint64 { return t.Counters.Backoffs }),
	count("efa.unresponsive_remote_events", "{event}", "peers that failed since they did not respond",
		func(t *totals) uint64 { return t.Counters.PeersSilent }),
	counts("efa.rx_drops", "{packet}", "packets received and dropped, and why", by(attrReason), (*totals).drops),

	count("efa.rnr", "{packet}", "packets and RDMA requests that met a receiver which was not ready", func(t *totals) uint64 { return t.Queue.RNR }),
	{
		Name: "efa.backoff.time", Kind: Seconds, Unit: "s", Text: "time in back-off, of all peers",
		observe: func(t *totals, o observe) { o(int64(t.Counters.BackoffNanos)) },
	},
	counts("efa.handshakes", "{packet}", "HANDSHAKE packets", by(attrDirection), (*totals).handshakes),
	count("efa.peers.failed", "{peer}", "peers that failed by themselves", func(t *totals) uint64 { return t.Counters.PeersFailed }),
	count("efa.unexpected.messages", "{message}", "messages for which no receive was posted", func(t *totals) uint64 { return t.Counters.Unexpected }),
	count("efa.reorder.packets", "{packet}", "packets that arrived before their turn", func(t *totals) uint64 { return t.Counters.OutOfOrder }),
	count("efa.copied", "By", "bytes of messages that were copied by software", func(t *totals) uint64 { return t.Counters.Copied }),
	{
		Name: "efa.registrations", Unit: "{region}", Text: "memory regions registered",
		fabric: func(_, all int64) int64 { return all },
	},
	count("efa.telemetry.lost", "{record}", "records dropped because they were not read in time: spans are incomplete, durations missing",
		func(t *totals) uint64 { return t.Lost }),

	level("efa.endpoints", "{endpoint}", "endpoints that are open", func(t *totals) int64 { return t.Endpoints }),
	{
		Name: "efa.peers", Kind: Level, Unit: "{peer}", Text: "peers with which there was contact",
		device: func(p *endpoint.PathSample) int64 { return p.Peers },
	},
	{
		Name: "efa.regions", Kind: Level, Unit: "{region}", Text: "memory regions that are open",
		fabric: func(open, _ int64) int64 { return open },
	},
	{
		Name: "efa.queue.depth", Kind: Level, Unit: "{entry}", Attrs: by(attrQueue), Text: "entries of queues: packets and requests " +
			"with the device (send), operations that send (tx) and receive (rx), receives that wait for a message (posted), " +
			"messages that wait for a receive (unexpected), completions that were not read (completion)", observe: (*totals).depths,
	},
	{
		Name: "efa.queue.capacity", Kind: Level, Unit: "{entry}", Attrs: by(attrQueue), Text: "how many entries efa.queue.depth may have " +
			"in send, tx, rx and completion, of all endpoints; the others are bounded by memory", observe: (*totals).capacities,
	},
	level("efa.unexpected.limit", "By", "memory that unexpected messages may take (TotalMemory), of all endpoints", func(t *totals) int64 { return t.Depths.Most.Held }),
	level("efa.unexpected.bytes", "By", "memory held by unexpected messages", func(t *totals) int64 { return t.Depths.Held }),
	level("efa.reorder.depth", "{packet}", "packets that wait for their turn", func(t *totals) int64 { return t.Depths.Early }),
}

// Device is a device as metrics name it.
type Device struct {
	Name string // of the driver and the attachment: "tcp:10.1.2.3:0"
	Kind string // "tcp"; of several, best first, "shm,tcp"
}

func (d Device) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attrDevice.String(d.Name), attrDeviceKind.String(d.Kind)}
}

// pathAttributes are the attributes of a device, and which of a Sample's Paths are its:
// several if devices have one name.
type pathAttributes struct {
	attrs []attribute.KeyValue
	paths []int
}

// paths lists the devices that the endpoints are on.
func (c *Config) paths() []pathAttributes {
	if len(c.Devices) == 0 {
		return []pathAttributes{{c.Device.attributes(), []int{0}}}
	}
	var list []pathAttributes
	at := map[Device]int{}
	for i, d := range c.Devices {
		k, ok := at[d]
		if !ok {
			k = len(list)
			at[d] = k
			list = append(list, pathAttributes{attrs: d.attributes()})
		}
		list[k].paths = append(list[k].paths, i)
	}
	return list
}

// maxLabels is how many names of endpoints metrics tell apart. Each has some hundred
// series, which last as long as the Collector.
const maxLabels = 256

// otherLabel is of endpoints with further names.
const otherLabel = "_OTHER"

// labels are the names of endpoints that metrics have.
type labels map[string]struct{}

// of returns the label of an endpoint with a name; "" is of all without.
func (l *labels) of(name string) string {
	if name == "" {
		return ""
	}
	if _, ok := (*l)[name]; ok {
		return name
	}
	if len(*l) >= maxLabels {
		return otherLabel
	}
	if *l == nil {
		*l = labels{}
	}
	(*l)[name] = struct{}{}
	return name
}

// named is the attribute of an endpoint's name, if it has one.
func named(label string) []attribute.KeyValue {
	if label == "" {
		return nil
	}
	return []attribute.KeyValue{attrEndpoint.String(label)}
}
