package pp

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// The subprotocols, in the order of Table 1.1.
const (
	eager efa.Protocol = iota + 1
	medium
	longCTS
	longRead
)

func TestSizes(t *testing.T) {
	require.Equal(t, []int{64, 256, 1024, 4096, 65536, 1048576}, sizes(t, ""))
	require.Equal(t, []int{8}, sizes(t, "8"))
	require.Equal(t, []int{0}, sizes(t, "0"))
	require.Equal(t, []int{64 << 10}, sizes(t, "64k"))
	require.Equal(t, []int{16 << 20}, sizes(t, "16M"))
	require.Equal(t, []int{MaxSize}, sizes(t, "1024m"))

	all := sizes(t, "all")
	require.Equal(t, []int{1, 2, 3, 4, 6, 8, 12, 16}, all[:8])
	require.Equal(t, []int{6 << 20, 8 << 20, 12 << 20, 16 << 20}, all[len(all)-4:])

	tool := sizes(t, "tool") // fi_pingpong 1.17 -S all prints 46 lines
	require.Len(t, tool, 46)
	require.Equal(t, []int{0, 1, 2, 3, 4, 6}, tool[:6])
	require.Equal(t, 6<<20, tool[45])
	require.Equal(t, tool[1:], all[:len(all)-3])

	for _, s := range []string{"x", "8b", "-1", "k", "1.5k", "8 ", "1073741825", "1025m", "99999999999999999999"} {
		_, err := Sizes(s)
		require.ErrorContains(t, err, "size", s)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1k", 1536: "1.5k", 2253: "2.2k", 10 << 10: "10k", 10<<10 + 512: "10k",
		1 << 20: "1m", 3 << 19: "1.5m", 320 << 20: "320m", 1 << 30: "1g", 1<<31 + 1<<29: "2.5g",
	} {
		require.Equal(t, want, sizeText(n))
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := Table{Out: &out}
	for _, r := range []Result{
		{Bytes: 8, Sent: 1000, Acked: 1000, Elapsed: 880 * time.Microsecond, Protocol: eager, rounds: []time.Duration{800, 820, 1500, 1600}},
		{Bytes: 1536, Sent: 10, Acked: 8, Elapsed: 25 * time.Microsecond, Protocol: eager},
		{Bytes: 65536, Sent: 10, Acked: 11, Elapsed: 188 * time.Microsecond, Protocol: medium},
		{Bytes: 16 << 20, Sent: 123456789, Acked: 123456789, Elapsed: 9876 * time.Second, Protocol: longCTS},
	} {
		require.NoError(t, table.Add(r))
	}
	require.Equal(t, strings.TrimPrefix(`
bytes   #sent     #ack       total          time     MB/sec   usec/xfer  Mxfers/sec       p50       p99  protocol
8       1000      =1000      15k       0.000880s      18.18        0.44      2.2727      0.41      0.75  eager
1.5k    10        +2         30k       0.000025s    1228.80        1.25      0.8000      0.00      0.00  eager
64k     10        -1         1.2m      0.000188s    6971.91        9.40      0.1064      0.00      0.00  medium
16m     123456789 =123456789 3767t   9876.000000s  419453.47       40.00      0.0250      0.00      0.00  long-CTS
`, "\n"), out.String())
	require.ErrorIs(t, (&Table{Out: broken{}}).Add(Result{Sent: 1, Elapsed: 1}), errBroken)
}

func TestPercentile(t *testing.T) {
	var r Result
	require.Zero(t, r.Percentile(50), "nothing was timed")
	for i := range 1000 {
		r.rounds = append(r.rounds, time.Duration(2000*(i+1)))
	}
	require.Equal(t, []float64{1, 500, 990, 1000}, []float64{r.Percentile(0), r.Percentile(50), r.Percentile(99), r.Percentile(100)})
}

// TestSuitable: a fast device gets as many rounds as are of use, a slow one those for which there is time.
func TestSuitable(t *testing.T) {
	for _, c := range []struct {
		sent    int
		elapsed time.Duration
		want    int
	}{
		{1000, time.Millisecond, mostRounds},
		{1000, 200 * time.Millisecond, 500},
		{20, 70 * time.Millisecond, 28},
		{10, time.Minute, fewestRounds},
		{1, 1, mostRounds},
	} {
		require.Equal(t, c.want, Result{Sent: c.sent, Elapsed: c.elapsed}.suitable())
	}
	var c Config
	require.Equal(t, []int{1000, 1000, 1000, 500, 20, 20}, []int{c.warmup(0), c.warmup(1), c.warmup(4096), c.warmup(8192), c.warmup(1 << 20), c.warmup(16 << 20)})
	c = Config{Iterations: 5, Warmup: 3}
	require.Equal(t, 3, c.warmup(1))
}

func TestSummary(t *testing.T) {
	var s Summary
	require.Empty(t, s.Text(Info{Device: "shm:/x"}))
	s.Add(Result{Bytes: 8, Sent: 1000, Acked: 1000, Elapsed: 880 * time.Microsecond, rounds: []time.Duration{800, 820, 1500}})
	require.Equal(t, "shm:/x carried 1000 messages each way, of 8 B: one of 8 B takes 0.41 us (p50; p99 0.41)", s.Text(Info{Device: "shm:/x"}))
	s.Checked = true
	s.Add(Result{Bytes: 3 << 19, Sent: 100, Acked: 100, Elapsed: 10 * time.Millisecond})
	s.Add(Result{Bytes: 1536, Sent: 10, Acked: 7, Elapsed: 10 * time.Millisecond})
	require.Equal(t, "shm:/x carried 1110 messages each way, of 3 sizes from 8 B to 1.5 MiB, 3 of them unanswered, and every byte was right: "+
		"one of 8 B takes 0.41 us (p50; p99 0.41), and 1.5 MiB go at 31457 MB/s", s.Text(Info{Device: "shm:/x"}))
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	r := Result{Bytes: 1024, Sent: 10, Acked: 9, Elapsed: 8 * time.Microsecond, Protocol: eager, rounds: []time.Duration{700, 900, 9000}}
	require.NoError(t, r.WriteJSON(&out, Info{Device: "shm:/x", Reason: "because"}))
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "one line")
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, map[string]any{
		"bytes": 1024.0, "#sent": 10.0, "#ack": 9.0, "total": 20480.0, "time": 8e-6,
		"MB/sec": 2560.0, "usec/xfer": 0.4, "Mxfers/sec": 2.5, "p50": 0.45, "p99": 0.45, "protocol": "eager",
		"device": "shm:/x", "progress": "auto", "progress_reason": "because",
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": float64(runtime.NumCPU()),
	}, got)
	require.ErrorIs(t, r.WriteJSON(broken{}, Info{}), errBroken)
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
