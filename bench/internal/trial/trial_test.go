package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// contestant gives the figures one after the other and counts what it was asked to do.
func contestant(name string, asked *[]int, figures ...float64) Contestant {
	return Contestant{Name: name, Run: func(_ context.Context, n int) (Sample, error) {
		i := len(*asked)
		*asked = append(*asked, n)
		if i >= len(figures) {
			return Sample{}, errors.New("broken\noff")
		}
		return Sample{Value: figures[i], Each: time.Millisecond, Tails: map[string]float64{"p50": figures[i] / 2}}, nil
	}}
}

func runner() Runner {
	return Runner{Rounds: 5, Time: 100 * time.Millisecond, Timeout: time.Minute, Until: math.MaxInt64, Log: io.Discard}
}

// run measures a case of two: the first figure of each is the pilot's.
func run(t *testing.T, theirs ...float64) (o *Outcome, asked [2][]int) {
	t.Helper()
	c := Case{
		Name: "latency/shm/8B", Unit: "us", Pilot: 20,
		Ours:  []Contestant{contestant("", &asked[0], 99, 1, 2, 3, 4, 5)},
		Peers: []Contestant{contestant("peer", &asked[1], theirs...)},
	}
	r := runner()
	o, err := r.Run(t.Context(), &c, math.MaxInt64)
	require.NoError(t, err)
	return o, asked
}

// TestRun: the pilot says how many operations fill the time, and its figure does not count.
func TestRun(t *testing.T) {
	o, asked := run(t, 99, 10, 20, 30, 40, 50)
	assert.Equal(t, []int{20, 100, 100, 100, 100, 100}, asked[0])
	lines := o.Lines()
	require.Len(t, lines, 1)
	l := lines[0]
	assert.Equal(t, "latency/shm/8B", l.Case)
	assert.Equal(t, "peer", l.Peer)
	assert.InDelta(t, 3, l.Ours, 1e-9)
	assert.InDelta(t, 30, *l.Theirs, 1e-9)
	assert.InDelta(t, 0.1, *l.Ratio, 1e-9)
	assert.Equal(t, [2]float64{1, 5}, l.OursSpread)
	assert.Equal(t, map[string]float64{"p50": 1.5}, l.Percentiles)
	assert.InDelta(t, 2.0/252, *l.P, 1e-9, "the two extreme orders of 252")
	assert.Equal(t, "better", l.verdict())
	l.Better = "more"
	assert.Equal(t, "worse", l.verdict())
}

// TestP: no difference, and one that chance makes often.
func TestP(t *testing.T) {
	assert.InDelta(t, 1, P([]float64{1, 1, 1}, []float64{1, 1, 1}), 1e-9)
	assert.InDelta(t, 0.1, P([]float64{1, 2, 3}, []float64{4, 5, 6}), 1e-9, "2 of 20 orders")
	assert.Greater(t, P([]float64{1, 3, 5}, []float64{2, 4, 6}), 0.5)
}

// TestFailure: a peer that fails is out, named, and the rest goes on.
func TestFailure(t *testing.T) {
	o, asked := run(t, 99, 10)
	assert.Len(t, asked[1], 3)
	lines := o.Lines()
	require.Len(t, lines, 1)
	assert.Equal(t, NoPeer, lines[0].Peer)
	assert.Nil(t, lines[0].Theirs)
	var b bytes.Buffer
	WriteFailures(&b, o)
	assert.Equal(t, "# latency/shm/8B: peer FAILED: broken off\n", b.String())
	o, _ = run(t, -1)
	require.ErrorContains(t, o.Failures()["peer"], "unexpected figure")
}

// TestTimeout: a contestant that takes too long is out.
func TestTimeout(t *testing.T) {
	r := runner()
	r.Timeout = time.Millisecond
	o, err := r.Run(t.Context(), &Case{Ours: []Contestant{{Run: func(ctx context.Context, _ int) (Sample, error) {
		<-ctx.Done()
		return Sample{}, ctx.Err()
	}}}}, math.MaxInt64)
	require.NoError(t, err)
	require.ErrorIs(t, o.Failures()["efactor"], context.DeadlineExceeded)
	assert.Empty(t, o.Lines())
}

// TestRounds: a case may have fewer rounds than others, and never more.
func TestRounds(t *testing.T) {
	r := runner()
	var asked []int
	o, err := r.Run(t.Context(), &Case{Rounds: 2, Ours: []Contestant{contestant("", &asked, 1, 2, 3)}}, math.MaxInt64)
	require.NoError(t, err)
	assert.Equal(t, 2, o.Rounds)
	assert.Len(t, asked, 2)
	assert.Equal(t, 5, (&Case{}).RoundsOf(5))
	assert.Equal(t, 5, (&Case{Rounds: 9}).RoundsOf(5))
}

// TestZero: a figure of 0 is one where the case says so.
func TestZero(t *testing.T) {
	r := runner()
	for _, zero := range []bool{false, true} {
		var asked []int
		o, err := r.Run(t.Context(), &Case{Zero: zero, Ours: []Contestant{contestant("", &asked, 0, 0, 0, 0, 0)}}, math.MaxInt64)
		require.NoError(t, err)
		assert.Equal(t, zero, len(o.Lines()) == 1)
	}
}

// TestRemaining: the time left goes by the runs that are done, and the end bounds it.
func TestRemaining(t *testing.T) {
	r := runner()
	cases := []Case{{Pilot: 1, Ours: make([]Contestant, 2), Peers: make([]Contestant, 1)}, {Rounds: 1, Ours: make([]Contestant, 4)}}
	assert.Equal(t, 18+4, r.effort(cases))
	assert.Equal(t, "at most 60s", remaining(0, 0, 22, time.Minute))
	assert.Equal(t, "about 4s", remaining(18*time.Second, 18, 22, time.Minute))
	assert.Equal(t, "about 60s", remaining(time.Hour, 18, 22, time.Minute))
}

// TestLate: cases for which no time is left are named.
func TestLate(t *testing.T) {
	r := runner()
	r.Until = clock.System.Now() - 1
	err := r.All(t.Context(), []Case{{Name: "a"}, {Name: "b"}}, func(*Outcome) error {
		t.Error("nothing was to be measured")
		return nil
	})
	require.ErrorIs(t, err, ErrLate)
	assert.ErrorContains(t, err, "[a b]")
}

// TestPart: a case whose part of the time is over has one round, which is whole.
func TestPart(t *testing.T) {
	r := runner()
	var asked [2][]int
	o, err := r.Run(t.Context(), &Case{
		Ours: []Contestant{contestant("", &asked[0], 1, 2)}, Peers: []Contestant{contestant("peer", &asked[1], 1, 2)},
	}, clock.System.Now()-1)
	require.NoError(t, err)
	assert.Equal(t, 1, o.Rounds)
	assert.Equal(t, [2][]int{{1}, {1}}, asked)
	assert.Equal(t, 1, o.Lines()[0].Rounds)
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := runner()
	_, err := r.Run(ctx, &Case{Ours: []Contestant{{Run: func(context.Context, int) (Sample, error) {
		cancel()
		return Sample{Value: 1}, nil
	}}}}, math.MaxInt64)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestJSON: the fields that readers of the lines rely on.
func TestJSON(t *testing.T) {
	o, _ := run(t, 99, 10, 20, 30, 40, 50)
	l, p := o.Lines()[0], 0.01
	l.P = &p // which has more digits
	text, err := json.Marshal(l)
	require.NoError(t, err)
	assert.JSONEq(t, `{"case":"latency/shm/8B","peer":"peer","ours":3,"theirs":30,"ratio":0.1,"unit":"us","better":"less",
		"p":0.01,"rounds":5,"ours_spread":[1,5],"theirs_spread":[10,50],"ours_percentiles":{"p50":1.5},"theirs_percentiles":{"p50":15}}`, string(text))
	o, _ = run(t)
	text, err = json.Marshal(o.Lines()[0])
	require.NoError(t, err)
	assert.JSONEq(t, `{"case":"latency/shm/8B","peer":"none","ours":3,"unit":"us","better":"less","rounds":5,
		"ours_spread":[1,5],"ours_percentiles":{"p50":1.5}}`, string(text))
}

func TestTable(t *testing.T) {
	o, _ := run(t, 99, 10, 20, 30, 40, 50)
	var b bytes.Buffer
	WriteHead(&b)
	WriteLines(&b, o.Lines())
	o, _ = run(t)
	WriteLines(&b, o.Lines())
	assert.Equal(t, `case                             unit  peer                           efactor                   peer  ratio      p  
latency/shm/8B                   us    peer                 3.00 (1.00..5.00)   30.00 (10.00..50.00)   0.10  0.008  better
latency/shm/8B                   us    peer's  p50 15.00
latency/shm/8B                   us    efactor's  p50 1.50
latency/shm/8B                   us    none                 3.00 (1.00..5.00)                      -      -      -  
latency/shm/8B                   us    efactor's  p50 1.50
`, b.String())
}

// TestApart: a case whose runs had the CPUs at different distances says so; what is not known does not count.
func TestApart(t *testing.T) {
	for name, c := range map[string]struct {
		looks []float64
		want  *[2]float64
		note  bool
	}{
		"alike":   {[]float64{21, 30, 0}, &[2]float64{21, 30}, false},
		"moved":   {[]float64{21, 180}, &[2]float64{21, 180}, true},
		"unknown": {[]float64{0}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, asked, looked := runner(), []int{}, 0
			r.Apart = func() float64 {
				looked++
				return c.looks[looked%len(c.looks)]
			}
			o, err := r.Run(t.Context(), &Case{Name: "x", Ours: []Contestant{contestant("", &asked, 1, 2, 3, 4, 5)}}, math.MaxInt64)
			require.NoError(t, err)
			lines := o.Lines()
			assert.Equal(t, c.want, lines[0].Apart)
			var b bytes.Buffer
			WriteLines(&b, lines)
			assert.Equal(t, c.note, bytes.Contains(b.Bytes(), []byte("# x: the CPUs were 21 to 180 ns apart")), b.String())
		})
	}
}
