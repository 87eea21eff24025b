package echo

import (
	"context"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

// asProgram has the test binary be a server, or a process that computes.
const asProgram = "EFACTOR_ECHO"

func TestMain(m *testing.M) {
	switch name := os.Getenv(asProgram); name {
	case "":
		os.Exit(m.Run())
	case "busy":
		Busy(context.Background(), os.Stdin)
	default:
		p := testPlan(name)
		if err := p.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
	}
}

func testPlan(system string) Plan {
	return Plan{System: system, Progress: "auto", Size: 8, Warm: 2, Count: 10}
}

func everything() []System { return slices.Concat(Systems, Documents, Actors, own) }

// TestSystems: each answers what it is asked, and ends when its input does.
func TestSystems(t *testing.T) {
	for _, s := range everything() {
		t.Run(s.Name, func(t *testing.T) {
			in, end := io.Pipe()
			addr, out := io.Pipe()
			ended := make(chan error, 1)
			p := testPlan(s.Name)
			go func() { ended <- p.Serve(t.Context(), in, out) }()
			text := make([]byte, 2000)
			n, err := addr.Read(text)
			require.NoError(t, err)
			c, err := s.dial(t.Context(), p, string(text[:n-1]))
			require.NoError(t, err)
			for _, question := range []string{"question", "another1"} {
				answer, err := c.call(t.Context(), []byte(question))
				require.NoError(t, err)
				assert.Equal(t, question, string(answer))
			}
			if x, ok := c.(streamer); ok && slices.ContainsFunc(Actors, func(a System) bool { return a.Name == s.Name }) {
				for range 3 {
					require.NoError(t, x.stream(t.Context(), 1000, []byte("one way!")))
				}
			}
			require.NoError(t, c.close())
			require.NoError(t, end.Close())
			assert.NoError(t, <-ended)
		})
	}
}

func command(name string) []string {
	return []string{"/usr/bin/env", asProgram + "=" + name, os.Args[0]}
}

// TestThink: a client that computes before each question times each answer, also where others compute beside.
func TestThink(t *testing.T) {
	for _, name := range []string{Endpoint, Unix, TCP} {
		p := testPlan(name)
		p.Think, p.Busy, p.Counts = 100*time.Microsecond, 1, true
		r, err := p.Ask(t.Context(), command(name), command("busy"))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, r.Each, p.Think, name)
		assert.Positive(t, r.Figures[P50], name)
		assert.GreaterOrEqual(t, r.Figures[P99], r.Figures[P50], name)
		assert.Contains(t, r.Figures, ServerCPU, name)
		assert.Contains(t, r.Figures, Switches, name)
		if calls, ok := r.Figures[Calls]; ok {
			assert.GreaterOrEqual(t, calls, 0.0, name)
		}
	}
}

// TestCallsOfThinker counts the system calls and switches of 1,000 questions of a client that computes 500 us before each:
// no more than one and a half times a Unix socket's, in the best of four runs. On a quiet machine they are fewer than the socket's;
// beside other programs waits sleep that would have polled.
func TestCallsOfThinker(t *testing.T) {
	testenv.Long(t, "a client computes for real time")
	least := map[string]float64{}
	fits := func() bool {
		return least[Endpoint+Switches] <= 1.5*least[Unix+Switches] && least[Endpoint+Calls] <= 1.5*least[Unix+Calls]
	}
	for try := 0; try == 0 || try < 4 && !fits(); try++ {
		for _, name := range []string{Endpoint, Unix} {
			p := testPlan(name)
			p.Think, p.Counts, p.Count = 500*time.Microsecond, true, 4000
			r, err := p.Ask(t.Context(), command(name), nil)
			require.NoError(t, err)
			for _, count := range []string{Calls, Switches} {
				if n, ok := r.Figures[count]; ok {
					if before, ok := least[name+count]; ok {
						n = min(n, before)
					}
					least[name+count] = n
				}
			}
		}
	}
	t.Logf("for a question: %v", least)
	if _, counted := least[Unix+Calls]; !counted {
		t.Log("the kernel counts no system calls for us; the naps of Go's monitor are among the switches")
	}
	assert.True(t, fits())
}

// TestClients: several ask side by side, also in the server's process.
func TestClients(t *testing.T) {
	for _, s := range Documents {
		for _, local := range []bool{false, true} {
			p := testPlan(s.Name)
			p.Size, p.Clients, p.Local = 1000, 3, local
			r, err := p.Ask(t.Context(), command(s.Name), nil)
			require.NoError(t, err, s.Name)
			assert.Positive(t, r.Each, s.Name)
		}
	}
}

// TestStream: messages of which none is answered, but whole batches are.
func TestStream(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		p := testPlan(map[string]string{"unix": Unix, "tcp": TCP}[network])
		p.Stream, p.Local, p.Think, p.Count = true, true, time.Microsecond, 2*batch+1
		r, err := p.Ask(t.Context(), nil, nil)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, r.Each, p.Think)
	}
}

func TestUnknown(t *testing.T) {
	p := testPlan("pigeon")
	require.ErrorIs(t, p.Serve(t.Context(), nil, nil), errUnknown)
	_, err := p.Ask(context.Background(), nil, nil)
	require.ErrorIs(t, err, errUnknown)
}
