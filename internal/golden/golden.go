package golden

import (
	"bufio"
	"compress/gzip"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// MTU of the device on which the captures of testdata were made, and of others that do
// not say.
const MTU = 8760

// Types of records that aren't packets of the protocol.
const (
	Headerless = "HEADERLESS" // bare data to the peer's user receive queue pair
	RDMARead   = "RDMA_READ"  // one-sided work request
	RDMAWrite  = "RDMA_WRITE" // one-sided work request
)

//go:embed testdata/*.jsonl.gz
var testdata embed.FS

// Scenario is one run of A and B.
type Scenario struct {
	Name      string            `json:"scenario"`
	Libfabric string            `json:"libfabric"` // the release, or cross:A:B of two
	Args      []string          `json:"args"`      // driver options and operations, in order
	Note      string            `json:"note"`
	Env       map[string]string `json:"env"`      // FI_*: libfabric's; EFASHIM_*: the device's abilities
	RawAddr   map[string]Addr   `json:"raw_addr"` // of A and B
	ConnID    map[string]uint32 `json:"connid"`   // of A and B
	// Completed: both finished, and all data, tags, CQ data and results were right.
	Completed bool     `json:"completed"`
	MTU       int      `json:"mtu"` // of the device; 0: MTU
	Packets   []Packet `json:"-"`
}

// Release is the release of libfabric that side, A or B, was.
func (s *Scenario) Release(side string) string {
	both, crossed := strings.CutPrefix(s.Libfabric, "cross:")
	if !crossed {
		return s.Libfabric
	}
	a, b, _ := strings.Cut(both, ":")
	if side == "A" {
		return a
	}
	return b
}

// Packet is one posted work request. A pointer is nil where the application
// passed no such thing.
type Packet struct {
	Seq  int    `json:"seq"`
	Type string `json:"type"` // nickname of the packet type, or one of the constants above
	From string `json:"from"` // A or B
	Len  int    `json:"len"`  // of the whole datagram or one-sided request

	// Hex is the packet's bytes, at most the first 448. Truncated is set if
	// Len is more. It is nil for one-sided requests.
	Hex       Hex  `json:"hex"`
	Truncated bool `json:"truncated"`

	// The operation that ran at the time: Op is "" for traffic before the
	// first one.
	Op         string  `json:"op"`
	Seed       int     `json:"seed"`
	Tag        *uint64 `json:"tag"`
	CQData     *uint64 `json:"cq_data"`
	RemoteAddr *uint64 `json:"remote_addr"`
	RemoteKey  *uint64 `json:"remote_key"`
	Datatype   *uint32 `json:"fi_datatype"`
	AtomicOp   *uint32 `json:"fi_op"`

	// The work request.
	DstQKey uint32  `json:"dst_qkey"`
	DstQPN  *uint32 `json:"dst_qpn"` // of Headerless
	Inline  bool    `json:"inline"`
	Imm     *uint32 `json:"imm"`
	WRAddr  uint64  `json:"wr_addr"` // of one-sided requests
	WRRKey  uint64  `json:"wr_rkey"`
}

// Hex is bytes that JSON holds as hexadecimal text.
type Hex []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}

// Each calls f for every packet that has the protocol's headers, at its full length:
// what the capture cut off is zero. to is the side that receives it, A or B.
func (s *Scenario) Each(f func(p *Packet, to string, b []byte)) {
	for i := range s.Packets {
		p := &s.Packets[i]
		if p.Hex == nil || p.Type == Headerless {
			continue
		}
		to := "A"
		if p.From == "A" {
			to = "B"
		}
		f(p, to, append([]byte(p.Hex), make([]byte, p.Len-len(p.Hex))...))
	}
}

// Addr is a raw address; it converts to wire.RawAddr.
type Addr [32]byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Addr) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(a) {
		return fmt.Errorf("raw address of %d hex digits", len(text))
	}
	_, err := hex.Decode(a[:], text)
	return err
}

// Load returns the scenarios of 1.17.0 and 2.3.1, whose fields tests know one by one.
// They are decoded once and shared: don't change them.
func Load() ([]Scenario, error) {
	all, err := loadAll()
	some := slices.DeleteFunc(slices.Clone(all), func(s Scenario) bool {
		return s.Libfabric != "1.17.0" && s.Libfabric != "2.3.1"
	})
	return some, err
}

// LoadAll returns the scenarios of every capture, shared as well.
func LoadAll() ([]Scenario, error) { return loadAll() }

var loadAll = sync.OnceValues(func() ([]Scenario, error) {
	files, err := fs.Sub(testdata, "testdata")
	if err != nil {
		return nil, err
	}
	return LoadFS(files)
})

// LoadFS returns the scenarios of every capture in a folder: files that end in .jsonl, or
// in .jsonl.gz. To have none is an error.
func LoadFS(files fs.FS) ([]Scenario, error) {
	var names []string
	for _, pattern := range []string{"*.jsonl", "*.jsonl.gz"} {
		some, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	var all []Scenario
	for _, name := range names {
		scenarios, err := loadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("golden: %s: %w", name, err)
		}
		all = append(all, scenarios...)
	}
	if len(all) == 0 {
		return nil, errors.New("golden: no captures (*.jsonl, *.jsonl.gz)")
	}
	return all, nil
}

func loadFile(files fs.FS, name string) ([]Scenario, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(name, ".gz") {
		return read(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return read(z)
}

// maxLen bounds the length that a record says.
const maxLen = 1 << 31

// check looks for what users of the n-th packet rely on.
func (p *Packet) check(n int) error {
	switch {
	case p.Seq != n:
		return fmt.Errorf("seq is %d", p.Seq)
	case p.From != "A" && p.From != "B":
		return fmt.Errorf("from %q", p.From)
	case p.Len < len(p.Hex) || p.Len > maxLen:
		return fmt.Errorf("%d bytes of %d", len(p.Hex), p.Len)
	}
	return nil
}

// read decodes one capture: a line without a type starts a scenario.
func read(r io.Reader) ([]Scenario, error) {
	var scenarios []Scenario
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return scenarios, nil
		} else if err != nil {
			return nil, err
		}
		var p Packet
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		if p.Type == "" {
			var s Scenario
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			if s.MTU == 0 {
				s.MTU = MTU
			}
			scenarios = append(scenarios, s)
			continue
		}
		if len(scenarios) == 0 {
			return nil, errors.New("packet before the first scenario")
		}
		s := &scenarios[len(scenarios)-1]
		if err := p.check(len(s.Packets)); err != nil {
			return nil, fmt.Errorf("%s: packet %d: %w", s.Name, len(s.Packets), err)
		}
		s.Packets = append(s.Packets, p)
	}
}
