package golden

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLoad(t *testing.T) {
	scenarios, err := Load()
	require.NoError(t, err)

	count := map[string]int{}
	records := map[string]int{}
	notCompleted := []string{}
	for _, s := range scenarios {
		count[s.Libfabric]++
		records[s.Libfabric] += len(s.Packets)
		if !s.Completed {
			notCompleted = append(notCompleted, s.Libfabric+" "+s.Name)
		}
		for _, side := range []string{"A", "B"} {
			require.Contains(t, s.RawAddr, side, s.Name)
			require.NotZero(t, s.ConnID[side], s.Name)
		}
		for i, p := range s.Packets {
			require.Equal(t, i, p.Seq, s.Name)
			require.Contains(t, []string{"A", "B"}, p.From, s.Name)
			switch p.Type {
			case RDMARead, RDMAWrite:
				require.Nil(t, p.Hex)
				require.NotZero(t, p.WRAddr)
			default:
				require.Equal(t, p.Len > 448, p.Truncated, "%s #%d", s.Name, i)
				require.Len(t, p.Hex, min(p.Len, 448), "%s #%d", s.Name, i)
				require.LessOrEqual(t, p.Len, MTU)
			}
		}
	}
	require.Equal(t, map[string]int{"1.17.0": 61, "2.3.1": 81}, count)
	require.Equal(t, map[string]int{"1.17.0": 728, "2.3.1": 901}, records)
	require.Len(t, notCompleted, 2)
}

// TestLoadAll: every capture is there, with the release of each side.
func TestLoadAll(t *testing.T) {
	scenarios, err := LoadAll()
	require.NoError(t, err)
	count := map[string]int{}
	for _, s := range scenarios {
		count[s.Release("A")+" "+s.Release("B")]++
	}
	require.Equal(t, map[string]int{
		"1.13.2 1.13.2": 60, "1.17.0 1.17.0": 61, "2.3.1 2.3.1": 81, "main main": 84, "1.17.0 main": 63, "main 1.17.0": 63,
		"2.6.0 2.6.0": 81, "f71b950ce f71b950ce": 21, "like27 like27": 21,
	}, count)
}

func TestReadRejects(t *testing.T) {
	for name, text := range map[string]string{
		"packet first":      `{"scenario":"x","seq":0,"type":"CTS"}`,
		"bad hex":           `{"scenario":"x"}` + "\n" + `{"type":"CTS","hex":"0g"}`,
		"short raw address": `{"scenario":"x","raw_addr":{"A":"fe80"}}`,
		"bad raw address":   `{"scenario":"x","raw_addr":{"A":"` + strings.Repeat("zz", 32) + `"}}`,
		"no JSON":           `scenario`,
		"wrong kind":        `{"scenario":"x"}` + "\n" + `{"type":"CTS","seq":"one"}`,
		"from nobody":       `{"scenario":"x"}` + "\n" + `{"type":"CTS","seq":0}`,
		"another order":     `{"scenario":"x"}` + "\n" + `{"type":"CTS","from":"A","seq":1}`,
		"more than it has":  `{"scenario":"x"}` + "\n" + `{"type":"CTS","from":"A","seq":0,"len":1,"hex":"0000"}`,
		"too much":          `{"scenario":"x"}` + "\n" + `{"type":"CTS","from":"A","seq":0,"len":4294967296}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(strings.NewReader(text))
			require.Error(t, err)
		})
	}
}

// TestLoadFS: a folder's captures are read whether or not they are compressed.
func TestLoadFS(t *testing.T) {
	const packets = `{"type":"CTS","from":"B","seq":0,"len":2,"hex":"0304"}`
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write([]byte(`{"scenario":"second","libfabric":"2.4.0","mtu":9000}` + "\n" + packets))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, err := LoadFS(fstest.MapFS{
		"a.jsonl":    {Data: []byte(`{"scenario":"first","libfabric":"cross:1.14.1:main"}` + "\n" + packets)},
		"b.jsonl.gz": {Data: z.Bytes()},
		"README.md":  {Data: []byte("not a capture")},
	})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []string{"first", "second"}, []string{got[0].Name, got[1].Name})
	require.Equal(t, []int{MTU, 9000}, []int{got[0].MTU, got[1].MTU})
	require.Equal(t, []string{"1.14.1", "main", "2.4.0"}, []string{got[0].Release("A"), got[0].Release("B"), got[1].Release("B")})
	for _, s := range got {
		require.Len(t, s.Packets, 1)
	}
	for name, files := range map[string]fstest.MapFS{
		"nothing":        {},
		"not compressed": {"a.jsonl.gz": {Data: []byte("{}")}},
		"no capture":     {"a.jsonl": {Data: []byte(packets)}},
	} {
		_, err := LoadFS(files)
		require.Error(t, err, name)
	}
}
