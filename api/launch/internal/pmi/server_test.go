package pmi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// launcher is one as MPI has them, for the processes of one job.
type launcher struct {
	version int
	size    int
	vallen  int // of PMI-1

	mu      sync.Mutex
	values  map[string]string
	at      int // processes at the barrier
	all     chan struct{}
	aborted []string
	ended   int // processes that have taken leave
}

func newLauncher(version, size int) *launcher {
	return &launcher{version: version, size: size, vallen: 1024, values: make(map[string]string), all: make(chan struct{})}
}

func (l *launcher) put(key, value string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.values[key]; twice || len(value) >= l.vallen || len(key) >= 64 {
		return false
	}
	l.values[key] = value
	return true
}

func (l *launcher) get(key string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.values[key]
	return v, ok
}

func (l *launcher) barrier() {
	l.mu.Lock()
	all := l.all
	if l.at++; l.at == l.size {
		l.at, l.all = 0, make(chan struct{})
		close(all)
	}
	l.mu.Unlock()
	<-all
}

// serve speaks with one process. byPort: it has connected by itself.
func (l *launcher) serve(conn net.Conn, rank int, byPort bool) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	line := func() (message, bool) {
		s, err := r.ReadString('\n')
		if err != nil {
			return message{}, false
		}
		m, err := parseLine(strings.TrimSuffix(s, "\n"))
		return m, err == nil
	}
	if byPort {
		m, ok := line()
		if !ok || m.cmd != "initack" {
			return
		}
		rank, _ = strconv.Atoi(m.args["pmiid"])
		fmt.Fprintf(conn, "cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", l.size, rank)
	}
	if m, ok := line(); !ok || m.cmd != "init" {
		return
	}
	fmt.Fprintf(conn, "cmd=response_to_init pmi_version=%d pmi_subversion=%d rc=0\n", l.version, 2-l.version)
	if l.version == 2 {
		l.records(conn, r, rank)
		return
	}
	for {
		m, ok := line()
		if !ok {
			return
		}
		switch m.cmd {
		case "get_maxes":
			fmt.Fprintf(conn, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n", l.vallen)
		case "get_my_kvsname":
			fmt.Fprint(conn, "cmd=my_kvsname kvsname=kvs_1_0\n")
		case "put":
			rc := 0
			if !l.put(m.args["key"], m.args["value"]) {
				rc = -1
			}
			fmt.Fprintf(conn, "cmd=put_result rc=%d msg=duplicate_key or_so\n", rc)
		case "get":
			if v, ok := l.get(m.args["key"]); ok {
				fmt.Fprintf(conn, "cmd=get_result rc=0 msg=success value=%s\n", v)
			} else {
				fmt.Fprintf(conn, "cmd=get_result rc=-1 msg=key_%s_not_found value=unknown\n", m.args["key"])
			}
		case "barrier_in":
			l.barrier()
			fmt.Fprint(conn, "cmd=barrier_out\n")
		case "abort":
			l.said("abort")
			return
		case "finalize":
			l.said("")
			fmt.Fprint(conn, "cmd=finalize_ack\n")
			return
		}
	}
}

func (l *launcher) records(conn net.Conn, r *bufio.Reader, rank int) {
	answer := func(cmd, rest string) {
		s := "cmd=" + cmd + "-response;rc=0;" + rest
		fmt.Fprintf(conn, "%-6d%s", len(s), s) // as Slurm aligns it
	}
	for {
		head := make([]byte, lengthLen)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(string(head)))
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		m, err := parseRecord(string(body))
		if err != nil {
			return
		}
		switch m.cmd {
		case "fullinit":
			answer(m.cmd, fmt.Sprintf("pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=-1;debugged=FALSE;", rank, l.size))
		case "job-getid":
			answer(m.cmd, "jobid=4;;2.0;")
		case "kvs-put":
			l.put(m.args["key"], m.args["value"])
			answer(m.cmd, "")
		case "kvs-get":
			if v, ok := l.get(m.args["key"]); ok && m.args["jobid"] == "4;2.0" {
				answer(m.cmd, "found=TRUE;value="+v+";")
			} else {
				answer(m.cmd, "found=FALSE;")
			}
		case "kvs-fence":
			l.barrier()
			answer(m.cmd, "")
		case "abort":
			l.said("abort " + m.args["msg"])
			return
		case "finalize":
			l.said("")
			answer(m.cmd, "")
			return
		}
	}
}

func (l *launcher) said(abort string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if abort != "" {
		l.aborted = append(l.aborted, abort)
		return
	}
	l.ended++
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start connects all processes.
func (l *launcher) start(t *testing.T, ask int, byPort bool) []*Client {
	t.Helper()
	clients := make([]*Client, l.size)
	var served sync.WaitGroup
	for r := range clients {
		ours, theirs := net.Pipe()
		served.Go(func() { l.serve(theirs, r, byPort) })
		cfg := Config{Conn: ours, Version: ask, Rank: r, Size: l.size}
		if byPort {
			cfg.Rank, cfg.Size, cfg.ID = 0, 0, strconv.Itoa(r)
		}
		var err error
		clients[r], err = Open(testContext(t), cfg)
		require.NoError(t, err)
		assert.Equal(t, r, clients[r].Rank)
		assert.Equal(t, l.size, clients[r].Size)
		assert.Equal(t, l.version, clients[r].Version)
	}
	t.Cleanup(func() {
		for _, k := range clients {
			_ = k.Close()
		}
		served.Wait()
	})
	return clients
}
