//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// start runs the program with a fabric of its own, until the test ends.
func start(t *testing.T, fabric string, args ...string) (cmd *exec.Cmd, out, log *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*testenv.Hang)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, testenv.Program(t), append([]string{"-device", "shm:" + fabric}, args...)...)
	out, log = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, log
	return cmd, out, log
}

// run runs the program to its end; err is about its exit status.
func run(t *testing.T, args ...string) (out, log string, err error) {
	cmd, o, l := start(t, filepath.Join(t.TempDir(), "fabric"), args...)
	err = cmd.Run()
	return o.String(), l.String(), err
}

var row = regexp.MustCompile(`^(\S+) +(\d+) +=(\d+) +(\S+) +\d+\.\d{6}s +\d+\.\d\d +\d+\.\d\d +\d+\.\d{4} +\d+\.\d\d +\d+\.\d\d  (eager|medium|long-CTS|long-read)$`)

// rows checks a table of so many messages each way, or of any number with 0, and returns the size and
// the protocol of each line.
func rows(t *testing.T, table string, count int) (sizes, protocols []string) {
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	require.Equal(t, strings.Fields("bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec p50 p99 protocol"), strings.Fields(lines[0]))
	for _, l := range lines[1:] {
		m := row.FindStringSubmatch(l)
		require.NotNil(t, m, l)
		if count > 0 {
			require.Equal(t, strconv.Itoa(count), m[2])
		}
		require.Equal(t, m[2], m[3])
		sizes, protocols = append(sizes, m[1]), append(protocols, m[5])
	}
	return sizes, protocols
}

func TestWithoutArguments(t *testing.T) {
	out, log, err := run(t)
	require.NoError(t, err, log)
	sizes, protocols := rows(t, out, 0)
	require.Equal(t, "1", sizes[0])
	require.Equal(t, "16m", sizes[len(sizes)-1])
	require.Subset(t, protocols, []string{"eager", "medium", "long-read"})
	require.Regexp(t, `^pingpong: shm:\S+ carries the traffic \(MTU \d+\), progress is (manual|pinned) \(auto: .*\)\n`+
		`pingpong: shm:\S+ carried \d+ messages each way, of 48 sizes from 1 B to 16 MiB, and every byte was right: `+
		`one of 1 B takes \d+\.\d\d us \(p50; p99 \d+\.\d\d\), and .* go at \d+ MB/s\n$`, log)
}

func TestEveryModeChecked(t *testing.T) {
	for _, mode := range []string{"manual", "pinned"} {
		for _, kind := range []string{"-m=msg", "-m=tagged", "-tagged"} {
			for _, size := range []string{"1", "8k", "70000"} {
				out, log, err := run(t, "-progress", mode, kind, "-S", size, "-c", "-I", "5")
				require.NoError(t, err, log)
				rows(t, out, 5)
				// On few cores the reason goes on: a pinned shard says that it is lent to goroutines that wait.
				require.Contains(t, log, "progress is "+mode+" (configured")
			}
		}
	}
}

func TestAllSizesChecked(t *testing.T) {
	out, log, err := run(t, "-S", "all", "-c", "-I", "2", "-warmup", "0")
	require.NoError(t, err, log)
	sizes, _ := rows(t, out, 2)
	require.Equal(t, "1", sizes[0])
	require.Equal(t, "16m", sizes[len(sizes)-1])
	width := -1
	for l := range strings.SplitSeq(out, "\n") {
		if i := strings.LastIndex(l, "  "); i >= 0 {
			require.True(t, width < 0 || i == width, "not aligned: %q", l)
			width = i
		}
	}
}

// serve starts a server and waits until it listens.
func serve(t *testing.T, fabric string, args ...string) (cmd *exec.Cmd, port string, out *bytes.Buffer, log *bufio.Scanner) {
	port = strconv.Itoa(freeport.Get(t))
	cmd, out, _ = start(t, fabric, append([]string{"-server", "-B", port}, args...)...)
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	log = bufio.NewScanner(pipe)
	for log.Scan() {
		if strings.Contains(log.Text(), "waiting for a client on port "+port) {
			return cmd, port, out, log
		}
	}
	require.FailNow(t, "the server does not listen")
	return nil, "", nil, nil
}

func TestTwoTerminals(t *testing.T) {
	for _, extra := range [][]string{{}, {"-tagged", "-c", "-warmup", "3"}, {"-S", "tool", "-I", "1"}} {
		fabric := filepath.Join(t.TempDir(), "fabric")
		server, port, sout, _ := serve(t, fabric, extra...)
		source := strconv.Itoa(freeport.Get(t))
		client, cout, clog := start(t, fabric, append(extra, "-P", port, "-B", source, "127.0.0.1")...)
		require.NoError(t, client.Run(), clog)
		require.NoError(t, server.Wait())
		count := 10
		if len(extra) == 4 && extra[0] == "-S" {
			count = 1
		}
		s1, p1 := rows(t, sout.String(), count)
		s2, p2 := rows(t, cout.String(), count)
		require.Equal(t, s1, s2)
		require.Equal(t, p1, p2)
		require.GreaterOrEqual(t, len(s1), 6)
	}
}

func TestDisagreeingTerminals(t *testing.T) {
	fabric := filepath.Join(t.TempDir(), "fabric")
	server, port, _, slog := serve(t, fabric, "-S", "8", "-I", "20")
	client, _, clog := start(t, fabric, "-S", "8", "-I", "10", "-P", port, "127.0.0.1")
	require.Error(t, client.Run())
	require.True(t, slog.Scan())
	require.Contains(t, slog.Text(), "the partner has finished already (start both sides with the same -I and -S)")
	require.Contains(t, clog.String(), "the partner closed the control connection")
	require.Error(t, server.Wait())
}

func TestJSON(t *testing.T) {
	out, log, err := run(t, "-json", "-S", "64k", "-I", "3")
	require.NoError(t, err, log)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, 65536.0, got["bytes"])
	require.Equal(t, 3.0, got["#sent"])
	require.Equal(t, 3.0, got["#ack"])
	require.Equal(t, 6*65536.0, got["total"])
	require.Equal(t, "long-read", got["protocol"])
	require.Contains(t, got["device"], "shm:")
	require.Contains(t, []any{"manual", "pinned"}, got["progress"])
	require.Contains(t, got["progress_reason"], "auto")
	require.Equal(t, runtime.Version(), got["go"])
	require.Equal(t, runtime.GOOS, got["os"])
	require.Equal(t, float64(runtime.NumCPU()), got["cpus"])
	usec, rate := got["usec/xfer"].(float64), got["Mxfers/sec"].(float64)
	require.InDelta(t, 1, usec*rate, 1e-9)
	require.InDelta(t, got["total"].(float64)/got["time"].(float64)/1e6, got["MB/sec"], 1e-6)
}

// packets reads a pcapng file, and returns the packets that went out and came in.
func packets(t *testing.T, file string) (sent, received [][]byte) {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	le := binary.LittleEndian
	for first := true; len(b) > 0; first = false {
		require.GreaterOrEqual(t, len(b), 12)
		kind, size := le.Uint32(b), int(le.Uint32(b[4:]))
		require.True(t, size >= 12 && size%4 == 0 && size <= len(b), "block of %d bytes", size)
		require.Equal(t, size, int(le.Uint32(b[size-4:])), "both lengths")
		require.Equal(t, first, kind == 0x0a0d0d0a)
		if kind == 6 {
			n := int(le.Uint32(b[20:]))
			data := b[28 : 28+n]
			at := 28 + (n+3)/4*4
			require.Equal(t, uint16(2), le.Uint16(b[at:]), "epb_flags")
			if le.Uint32(b[at+4:]) == 2 {
				sent = append(sent, data)
			} else {
				received = append(received, data)
			}
		}
		b = b[size:]
	}
	return sent, received
}

func TestCapture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcapng")
	_, log, err := run(t, "-capture", file, "-S", "62", "-c", "-I", "3", "-warmup", "0")
	require.NoError(t, err, log)
	sent, received := packets(t, file)
	for _, ps := range [][][]byte{sent, received} {
		data := 0
		for _, p := range ps {
			require.Greater(t, len(p), 64+4)
			require.Equal(t, byte(4), p[64+1], "version of the protocol")
			if bytes.Contains(p[64:], []byte("789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456")) {
				data++
			}
		}
		require.Equal(t, 1, data, "the second message")
	}
}

func TestInterrupt(t *testing.T) {
	fabric := filepath.Join(t.TempDir(), "fabric")
	cmd, _, _, log := serve(t, fabric)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.True(t, log.Scan())
	require.Equal(t, "pingpong: interrupted", log.Text())
	require.ErrorContains(t, cmd.Wait(), "exit status 130")
}

// TestInterruptBoth interrupts both processes at work, as a terminal does. The
// table's first lines show that they are at work.
func TestInterruptBoth(t *testing.T) {
	fabric := filepath.Join(t.TempDir(), "fabric")
	cmd, _, log := start(t, fabric, "-S", "all", "-I", "2000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(t, lines.Scan(), "%s", log)
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	for lines.Scan() {
	}
	require.ErrorContains(t, cmd.Wait(), "exit status 130")
	require.True(t, strings.HasSuffix(log.String(), "pingpong: interrupted\n"), "%s", log)
	left, err := filepath.Glob(filepath.Join(fabric, "*"))
	require.NoError(t, err)
	require.Empty(t, left, "files of dead processes")
}

func TestBadFlags(t *testing.T) {
	for args, says := range map[string]string{
		"-x":                     "flag provided but not defined: -x",
		"-S 12x":                 `-S: size "12x": want a number of bytes such as 8, 64k or 1m, or all`,
		"-S 2048m":               "-S: size 2048m: the longest message is 1g",
		"-I 0":                   "-I 0: want 1 to",
		"-warmup -1":             "-warmup -1: want 0 to",
		"-m rma":                 "-m rma: want msg or tagged",
		"-progress fast":         "-progress fast: want auto, manual or pinned",
		"-server host":           "-server waits for a client and takes no host (host)",
		"-B 1":                   "-B, -P and -6 are for -server and for a host to connect to",
		"-server -P 5":           "-P is for the client",
		"-P 70000 host":          "-P 70000: want 1 to 65535",
		"-B -1 host":             "-B -1: want 0 to 65535",
		"host -c":                `one host at most, and flags before it: ["host" "-c"]`,
		"-S 9x -progress tomato": "-progress tomato",
	} {
		_, log, err := run(t, strings.Fields(args)...)
		require.ErrorContains(t, err, "exit status 2", args)
		require.Contains(t, log, "pingpong: ")
		require.Contains(t, log, says)
		require.Contains(t, log, "-h lists the flags")
	}
	out, _, err := run(t, "-h")
	require.NoError(t, err)
	require.Equal(t, usage, out)
}

func TestFailures(t *testing.T) {
	for args, says := range map[string]string{
		"-device nope":                "pingpong: open device \"nope\"",
		"-device sim":                 "it is a fabric inside one process, and ping-pong takes two",
		"-P 1 127.0.0.1":              "no server at 127.0.0.1:1; start one there with -server, then try again",
		"-capture /nonexistent/x":     "capture: open /nonexistent/x: no such file or directory",
		"-device shm:/proc/nonesuch2": "open device \"shm:/proc/nonesuch2\"",
	} {
		out, log, err := run(t, strings.Fields(args)...)
		require.ErrorContains(t, err, "exit status 1", args)
		require.Contains(t, log, says)
		require.Empty(t, out, "no heading without a table")
	}

	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer l.Close()
	_, log, err := run(t, "-server", "-B", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	require.Error(t, err)
	require.Contains(t, log, "is in use, perhaps by another server; choose another one with -B")
}
