package pmi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/testenv"
)

const (
	testTime = testenv.Hang
	tick     = time.Millisecond
)

func TestParseLine(t *testing.T) {
	m, err := parseLine("cmd=get_result rc=0 msg=all went well value=a=b=")
	require.NoError(t, err)
	assert.Equal(t, message{"get_result", map[string]string{"rc": "0", "msg": "all", "value": "a=b="}}, m)
	for _, s := range []string{"", " ", "cmd=", "cmd", "rc=0 cmd=x", "cmd=x a=1 a=2"} {
		_, err := parseLine(s)
		assert.ErrorIs(t, err, errMalformed, "%q", s)
	}
}

func TestParseRecord(t *testing.T) {
	m, err := parseRecord("cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b=;;;;c;e=;")
	require.NoError(t, err)
	assert.Equal(t, message{"kvs-get-response", map[string]string{"rc": "0", "found": "TRUE", "value": "a;b=;;c", "e": ""}}, m)
	for _, s := range []string{"", ";", "cmd=", "cmd=;", "cmd=x", "cmd=x;;", "cmd=x;a", "cmd=x;a=1", "cmd=x;a=1;a=2;", "rc=0;cmd=x;", "cmd=x;a;b=1;"} {
		_, err := parseRecord(s)
		assert.ErrorIs(t, err, errMalformed, "%q", s)
	}
}

// TestSplit: parts come together again, and none is too long.
func TestSplit(t *testing.T) {
	for _, n := range []int{minPart, 100, maxPart} {
		for _, size := range []int{0, 1, 43, 44, 45, 46, 5000, board.MaxValue} {
			value := bytes.Repeat([]byte{0, 1, 0xff}, size)[:size]
			parts := split(value, n)
			at := map[string]string{}
			for i, p := range parts {
				require.LessOrEqual(t, len(p), n)
				require.LessOrEqual(t, len(partKey("k", i)), len("k")+maxSuffix)
				at[partKey("k", i)] = p
			}
			require.LessOrEqual(t, len(parts), maxParts)
			got, ok, err := collect("k", from(at))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, len(value), len(got))
			require.True(t, bytes.Equal(value, got))
		}
	}
}

func from(at map[string]string) func(string) (string, bool, error) {
	return func(key string) (string, bool, error) { v, ok := at[key]; return v, ok, nil }
}

func TestCollectBadValues(t *testing.T) {
	for name, at := range map[string]map[string]string{
		"no number":        {"k": "abc"},
		"number cut":       {"k": "1"},
		"zero":             {"k": "0."},
		"negative":         {"k": "-1."},
		"huge":             {"k": "999999999."},
		"not base64":       {"k": "1.a b"},
		"a part missing":   {"k": "3.AA", "k:1": "AA"},
		"an empty part":    {"k": "2.AA", "k:1": ""},
		"too long at once": {"k": "1." + strings.Repeat("A", board.MaxValue*2)},
		"too long in all":  {"k": "3.", "k:1": strings.Repeat("A", board.MaxValue), "k:2": strings.Repeat("A", board.MaxValue)},
	} {
		_, ok, err := collect("k", from(at))
		assert.ErrorIs(t, err, errMalformed, name)
		assert.False(t, ok, name)
	}
	_, ok, err := collect("k", from(nil))
	assert.NoError(t, err)
	assert.False(t, ok)
}

// against opens a client on a launcher with scripted answers.
func against(t testing.TB, cfg Config, says string) (*Client, error) {
	ours, theirs := net.Pipe()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(io.Discard, theirs); done <- struct{}{} }()
	go func() { _, _ = io.WriteString(theirs, says); _ = theirs.Close(); done <- struct{}{} }()
	cfg.Conn = ours
	k, err := Open(t.Context(), cfg)
	if err == nil {
		_ = k.Put(t.Context(), "k", []byte("value"))
		_ = k.Fence(t.Context())
		_, _, _ = k.Get(t.Context(), "k")
		_ = k.Close()
	}
	_ = ours.Close()
	<-done
	<-done
	return k, err
}

// TestLyingLaunchers: impossible answers end in an error.
func TestLyingLaunchers(t *testing.T) {
	two := Config{Version: 1, Rank: 1, Size: 2}
	const one = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
	const second = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"silence":             {two, ""},
		"noise":               {two, "\x00\x01\x02\n"},
		"endless":             {two, strings.Repeat("a", 1<<20)},
		"half a line":         {two, "cmd=response_to_init"},
		"wrong answer":        {two, "cmd=maxes\n"},
		"refused":             {two, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"},
		"version 3":           {two, "cmd=response_to_init pmi_version=3 pmi_subversion=1 rc=0\n"},
		"no version":          {two, "cmd=response_to_init rc=0\n"},
		"no limits":           {two, one + "cmd=maxes\n"},
		"small values":        {two, one + "cmd=maxes kvsname_max=9 keylen_max=64 vallen_max=10\ncmd=my_kvsname kvsname=k\n"},
		"small keys":          {two, one + "cmd=maxes kvsname_max=9 keylen_max=9 vallen_max=1000\ncmd=my_kvsname kvsname=k\n"},
		"negative":            {two, one + "cmd=maxes kvsname_max=9 keylen_max=-5 vallen_max=1000\ncmd=my_kvsname kvsname=k\n"},
		"no space":            {two, one + "cmd=maxes kvsname_max=9 keylen_max=64 vallen_max=1000\ncmd=my_kvsname kvsname=\n"},
		"a long space":        {two, one + "cmd=maxes kvsname_max=9 keylen_max=64 vallen_max=1000\ncmd=my_kvsname kvsname=" + strings.Repeat("k", 900) + "\n"},
		"PMI-2, other rank":   {two, second + record("cmd=fullinit-response;rc=0;rank=0;size=2;")},
		"PMI-2, other size":   {two, second + record("cmd=fullinit-response;rc=0;rank=1;size=3;")},
		"PMI-2, no job":       {two, second + record("cmd=fullinit-response;rc=0;rank=1;size=2;") + record("cmd=job-getid-response;rc=0;")},
		"PMI-2, refused":      {two, second + record("cmd=fullinit-response;rc=7;errmsg=no;")},
		"PMI-2, bad length":   {two, second + "abcdefcmd="},
		"PMI-2, huge length":  {two, second + "999999cmd="},
		"PMI-2, wrong answer": {two, second + record("cmd=kvs-get-response;rc=0;")},
		"port, no rank":       {Config{Version: 1, ID: "0"}, "cmd=initack\ncmd=set size=2\ncmd=set debug=0\ncmd=set debug=0\n"},
		"port, rank too high": {Config{Version: 1, ID: "0"}, "cmd=initack\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n"},
		"port, not set":       {Config{Version: 1, ID: "0"}, "cmd=initack\ncmd=sot size=2\n"},
	} {
		_, err := against(t, c.cfg, c.says)
		assert.Error(t, err, name)
	}
}

// record is one of PMI-2.
func record(s string) string { return fmt.Sprintf("%*d%s", lengthLen, len(s), s) }

// FuzzLauncher: with any answers of a launcher the client comes to an end.
func FuzzLauncher(f *testing.F) {
	f.Add(byte(0), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"+
		"cmd=my_kvsname kvsname=k\ncmd=put_result rc=0\ncmd=barrier_out\ncmd=get_result rc=0 value=1.dmFsdWU\ncmd=finalize_ack\n")
	f.Add(byte(0), "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"+record("cmd=fullinit-response;rc=0;rank=1;size=2;")+
		record("cmd=job-getid-response;rc=0;jobid=1;")+record("cmd=kvs-put-response;rc=0;")+record("cmd=kvs-fence-response;rc=0;")+
		record("cmd=kvs-get-response;rc=0;found=TRUE;value=2.dmFs;"))
	f.Add(byte(1), "cmd=initack\ncmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\ncmd=response_to_init pmi_version=1 rc=0\n")
	f.Fuzz(func(t *testing.T, port byte, says string) {
		cfg := Config{Version: 1, Rank: 1, Size: 2}
		if port&1 == 1 {
			cfg = Config{Version: 1, ID: "1"}
		}
		k, err := against(t, cfg, says)
		if err == nil {
			require.True(t, k.Rank >= 0 && k.Rank < k.Size)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;")
	f.Add("cmd=get_result rc=0 msg=success value=a")
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := parseLine(s); err == nil {
			require.NotEmpty(t, m.cmd)
		}
		if m, err := parseRecord(s); err == nil {
			require.NotEmpty(t, m.cmd)
		}
	})
}
