package efa_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/spans"
)

// tracedEnv makes the test binary behave as the other process of TestJoinedSpans: the
// directory where the two meet.
const tracedEnv = "EFACTOR_TEST_TRACED_DIR"

func init() {
	if dir := os.Getenv(tracedEnv); dir != "" {
		if err := tracedChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// tracedSide is an endpoint on shm whose operations are traced.
type tracedSide struct {
	log  spans.Log
	fab  *efa.Fabric
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	dev  efa.Device
	mem  *efa.MemoryRegion
	peer efa.Addr
}

func openTraced(dir string) (*tracedSide, error) {
	s := &tracedSide{}
	var err error
	if s.dev, err = shm.Open(shm.Config{Dir: dir}); err != nil {
		return nil, err
	}
	if s.fab, err = efa.Open(efa.Config{Device: s.dev, Telemetry: efa.Telemetry{TracerProvider: s.log.Provider()}}); err != nil {
		return nil, err
	}
	if s.dom, err = s.fab.OpenDomain(efa.DomainConfig{}); err != nil {
		return nil, err
	}
	s.av = s.dom.NewAddressVector()
	// Without RDMA writes those to memory go by packets, where there is a key.
	if s.ep, err = s.dom.NewEndpoint(efa.EndpointConfig{AV: s.av, Protocol: efa.ProtocolConfig{NoRDMAWrite: true, MinRead: 256 << 10, MinReadWrite: 256 << 10}}); err != nil {
		return nil, err
	}
	if err = s.ep.Enable(context.Background()); err != nil {
		return nil, err
	}
	s.mem, err = s.dom.Alloc(1<<20, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead|efa.AccessRemoteWrite)
	return s, err
}

// close ends the endpoint, and gives the spans of its operations.
func (s *tracedSide) close() ([]sdk.ReadOnlySpan, error) {
	for _, f := range []func() error{s.ep.Close, s.mem.Close, s.dom.Close, s.fab.Close, s.dev.Close} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return s.log.Take(), nil
}

// tracedSizes go by every subprotocol of messages that shm has by default.
var tracedSizes = []int{0, 100, 30_000, 200_000, 1 << 20}

// tracedChild tells the parent its address and memory, receives what it sends and sends
// it back, and writes down its spans: name, kind, key, trace.
func tracedChild(dir string) error {
	ctx := context.Background()
	s, err := openTraced(dir)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	if s.peer, err = s.av.Insert(a); err != nil {
		return err
	}
	fmt.Println(s.ep.Address())
	at, err := s.mem.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := s.ep.Send(ctx, s.peer, at); err != nil {
		return err
	}
	for _, n := range tracedSizes {
		if _, err := s.ep.RecvTag(ctx, efa.AnyTag, s.mem.Bytes()[:n]); err != nil {
			return err
		}
		if err := s.ep.SendTag(ctx, s.peer, 1, s.mem.Bytes()[:n]); err != nil {
			return err
		}
	}
	if _, err := s.ep.Recv(ctx, nil); err != nil { // the parent is done
		return err
	}
	list, err := s.close()
	if err != nil {
		return err
	}
	if wrong := spans.Check(list); len(wrong) > 0 {
		return fmt.Errorf("spans: %s", strings.Join(wrong, "; "))
	}
	for _, x := range list {
		if key := spans.Get(x.Attributes(), "efa.message.key"); key != "" {
			fmt.Println(x.Name(), x.SpanKind(), key, x.SpanContext().TraceID(), x.SpanContext().SpanID())
		}
	}
	return nil
}

// opposite is what the other side of an operation is.
var opposite = map[string]string{
	"send client": "receive client", "receive client": "send client", "write client": "write server",
	"read client": "read server", "atomic client": "atomic server",
}

// TestJoinedSpans: the spans of two processes find each other, with nothing but the
// protocol between them.
func TestJoinedSpans(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	s, err := openTraced(dir)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), tracedEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, s.ep.Address().String()+"\n")
	require.NoError(t, err)
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	require.NoError(t, err)
	s.peer, err = s.av.Insert(a)
	require.NoError(t, err)

	ctx := testContext(t)
	var raw [efa.MaxRemote]byte
	m, err := s.ep.Recv(ctx, raw[:])
	require.NoError(t, err)
	var at efa.Remote
	require.NoError(t, at.UnmarshalBinary(raw[:m.N]))
	for i, n := range tracedSizes {
		level := efa.Complete([]efa.Level{efa.Transmitted, efa.Delivered}[i%2])
		require.NoError(t, s.ep.SendTag(ctx, s.peer, 1, s.mem.Bytes()[:n], level))
		_, err = s.ep.RecvTag(ctx, efa.AnyTag, s.mem.Bytes()[:n])
		require.NoError(t, err)
	}
	for _, n := range []int{10, 10_000, 1 << 20} {
		require.NoError(t, s.ep.Memory(s.peer, at).Write(ctx, s.mem.Bytes()[:n], efa.Complete(efa.Delivered)))
		require.NoError(t, s.ep.Memory(s.peer, at).Read(ctx, s.mem.Bytes()[:n]))
	}
	require.NoError(t, s.ep.Memory(s.peer, at).Write(ctx, s.mem.Bytes()[:10]), "of which the target knows nothing")
	require.NoError(t, efa.NewCell[uint64](s.ep.Memory(s.peer, at)).Add(ctx, uint64(1)))
	_, err = efa.NewCell[uint64](s.ep.Memory(s.peer, at)).FetchAdd(ctx, uint64(1))
	require.NoError(t, err)
	require.NoError(t, s.ep.Send(ctx, s.peer, nil))

	theirs := map[string][]string{} // by key
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		f := strings.Fields(line)
		theirs[f[2]] = append(theirs[f[2]], f[0]+" "+f[1], f[3], f[4])
	}
	require.NoError(t, cmd.Wait())
	list, err := s.close()
	require.NoError(t, err)
	require.Empty(t, spans.Check(list))
	joined := map[string]int{} // by protocol
	alone := map[string]int{}
	for _, x := range list {
		proto, key := spans.Get(x.Attributes(), "efa.protocol"), spans.Get(x.Attributes(), "efa.message.key")
		if key == "" {
			alone[proto]++
			continue
		}
		joined[proto]++
		require.Len(t, theirs[key], 3, "%s %s %s", x.Name(), proto, key)
		assert.Equal(t, opposite[x.Name()+" "+x.SpanKind().String()], theirs[key][0])
		assert.Equal(t, x.SpanContext().TraceID().String(), theirs[key][1])
		assert.NotEqual(t, x.SpanContext().SpanID().String(), theirs[key][2])
		delete(theirs, key)
	}
	assert.Empty(t, theirs, "what has no counterpart here")
	t.Logf("joined: %v, alone: %v", joined, alone)
	assert.Equal(t, 1, alone["eager write"])
	for _, proto := range []string{"eager", "medium", "long-CTS", "DC eager", "DC long-CTS", "DC eager write", "write atomic", "fetch atomic"} {
		assert.Positive(t, joined[proto], proto)
	}
}
