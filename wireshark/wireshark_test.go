package wireshark_test

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const script = "efa_rdm/efa_rdm.lua"

// tshark runs it with our dissector, in two passes, so that packets know of later
// ones, and gives its output.
func tshark(t *testing.T, args ...string) []byte {
	t.Helper()
	return tsharkAt(t, t.TempDir(), append([]string{"-2", "-n", "-X", "lua_script:" + script}, args...)...)
}

// tsharkAt runs it with the settings and plugins in home alone.
func tsharkAt(t *testing.T, home string, args ...string) []byte {
	t.Helper()
	testenv.NeedAll(t, "tshark")
	path, err := exec.LookPath("tshark")
	if err != nil {
		testenv.Missing(t, "tshark is missing: apt install tshark")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "WIRESHARK_CONFIG_DIR="+home, "LC_ALL=C.UTF-8", "TZ=UTC")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "tshark %q: %s", args, &errs)
	require.NotContains(t, errs.String(), "Lua", "tshark %q", args)
	return out.Bytes()
}

// field is a node of a packet's tree.
type field struct {
	Name   string  `xml:"name,attr"`
	Show   string  `xml:"show,attr"`
	Value  string  `xml:"value,attr"` // hexadecimal
	Pos    int     `xml:"pos,attr"`
	Size   int     `xml:"size,attr"`
	Fields []field `xml:"field"`
}

func (f *field) walk(fn func(f *field)) {
	fn(f)
	for i := range f.Fields {
		f.Fields[i].walk(fn)
	}
}

// frame is a dissected packet: the nodes of our protocol.
type frame struct {
	field
	byName map[string][]*field // names without efa_rdm.
}

// dissect returns the frames of a capture.
func dissect(t *testing.T, capture string) []*frame {
	t.Helper()
	var doc struct {
		Packets []struct {
			Protos []field `xml:"proto"`
		} `xml:"packet"`
	}
	out := tshark(t, "-r", capture, "-T", "pdml")
	require.NoError(t, xml.Unmarshal(out, &doc))
	var frames []*frame
	for n, p := range doc.Packets {
		var f *frame
		for i := range p.Protos {
			p.Protos[i].walk(func(x *field) { require.NotContains(t, x.Name, "_ws.lua.error", "frame %d: %s", n+1, x.Show) })
			if p.Protos[i].Name == "efa_rdm" {
				f = &frame{field: p.Protos[i], byName: map[string][]*field{}}
			}
		}
		if f == nil {
			t.Fatalf("frame %d isn't dissected; if nothing is, see run_user_scripts_when_superuser in Wireshark's init.lua", n+1)
		}
		f.walk(func(x *field) {
			if name, ok := strings.CutPrefix(x.Name, "efa_rdm."); ok {
				f.byName[name] = append(f.byName[name], x)
			}
		})
		frames = append(frames, f)
	}
	return frames
}

// has reports whether the frame has a field.
func (f *frame) has(name string) bool { return len(f.byName[name]) > 0 }

// numbers returns the values of all fields of that name.
func (f *frame) numbers(t *testing.T, name string) (list []uint64) {
	t.Helper()
	for _, x := range f.byName[name] {
		n, err := strconv.ParseUint(x.Show, 0, 64)
		require.NoError(t, err, "%s: %s", name, x.Show)
		list = append(list, n)
	}
	return list
}

// columns returns fields of every packet of a capture that a filter lets pass, as tshark
// writes them.
func columns(t *testing.T, capture, filter string, names ...string) [][]string {
	t.Helper()
	args := []string{"-r", capture, "-Y", filter, "-T", "fields"}
	for _, name := range names {
		args = append(args, "-e", name)
	}
	var rows [][]string
	for line := range strings.Lines(string(tshark(t, args...))) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

func tempFile(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }
