package ctrl

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// recorded is the conversation of fi_pingpong 1.17 -p shm -e rdm -S all -I 3 on
// both sides, up to the second of the sizes (strace -e trace=network).
var recorded = []line{
	{true, "\x00\x00\x00\x11" + "\x09\x00\x00\x00" + "fi_shm://448:0:0\x00"},
	{false, "\x00\x00\x00\x11" + "\x09\x00\x00\x00" + "fi_shm://531:0:0\x00"},
	{false, "q\x00"},
	{true, "a\x00"},
	{false, "3\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
	{true, "cnt ok\x00"},
	{false, "q\x00"},
	{true, "a\x00"},
	{false, "3\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
	{true, "cnt ok\x00"},
}

func TestRecordedConversation(t *testing.T) {
	names := map[bool]Name{
		true:  {Format: FormatString, Addr: []byte("fi_shm://448:0:0\x00")},
		false: {Format: FormatString, Addr: []byte("fi_shm://531:0:0\x00")},
	}
	for _, server := range []bool{true, false} {
		t.Run(map[bool]string{true: "server", false: "client"}[server], func(t *testing.T) {
			c, tool := pair(t, server)
			done := make(chan error, 1)
			go func() { done <- speak(within(t), c, names, 3, 2) }()
			converse(t, tool, !server, recorded)
			require.NoError(t, <-done)
		})
	}
}

// speak goes through the protocol for some sizes and checks the answers.
func speak(ctx context.Context, c *Conn, names map[bool]Name, count, sizes int) error {
	n, err := c.Exchange(ctx, names[c.Server()])
	if err != nil {
		return err
	}
	if want := names[!c.Server()]; n.Format != want.Format || string(n.Addr) != string(want.Addr) {
		return fmt.Errorf("met %v %q, want %v %q", n.Format, n.Addr, want.Format, want.Addr)
	}
	for range sizes {
		if err := c.Sync(ctx); err != nil {
			return err
		}
		w := c.Watch(ctx)
		w.Stop()
		got, err := c.Count(ctx, count)
		if err != nil {
			return err
		}
		if got != count {
			return fmt.Errorf("counted %d, want %d", got, count)
		}
	}
	return nil
}

func TestMeet(t *testing.T) {
	s, c := conns(t)
	a := efa.RawAddr{0xfe, 0x80, 15: 1, 16: 7}
	b := efa.RawAddr{0xfe, 0x80, 15: 2, 16: 8}
	got := make(chan efa.RawAddr, 1)
	go func() {
		raw, err := s.Meet(within(t), a)
		if err != nil {
			t.Error(err)
		}
		got <- raw
	}()
	raw, err := c.Meet(within(t), b)
	require.NoError(t, err)
	require.Equal(t, a, raw)
	require.Equal(t, b, <-got)
}

// TestRawName has the bytes of an EFA name: FI_ADDR_EFA is 12 in fi_fabric.h.
func TestRawName(t *testing.T) {
	a, err := efa.ParseAddress("fi_addr_efa://[fe80::1]:258:50595078")
	require.NoError(t, err)
	raw, ok := a.Raw("efa")
	require.True(t, ok)
	require.Equal(t, "\x00\x00\x00\x20"+"\x0c\x00\x00\x00"+
		"\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"+
		"\x02\x01\x00\x00"+"\x06\x05\x04\x03"+"\x00\x00\x00\x00\x00\x00\x00\x00",
		string(nameOf(raw).append(nil)))

	for _, c := range []struct {
		name Name
		says string
	}{
		{Name{FormatString, []byte("fi_shm://7:0:0\x00")}, `its endpoint is "fi_shm://7:0:0", not on an EFA fabric; start it with -p efa -e rdm`},
		{Name{2, make([]byte, 16)}, "its endpoint has an address format 2, want FI_ADDR_EFA"},
		{Name{FormatEFA, make([]byte, 31)}, "a raw address of 31 bytes, want 32"},
		{Name{FormatEFA, make([]byte, 33)}, "a raw address of 33 bytes, want 32"},
	} {
		_, err := c.name.Raw()
		require.ErrorIs(t, err, ErrProtocol)
		require.ErrorContains(t, err, c.says)
	}
}

func TestLargestCount(t *testing.T) {
	s, c := conns(t)
	got := make(chan int, 1)
	go func() {
		n, err := s.Count(within(t), 0)
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	_, err := c.Count(within(t), 9_999_999_999) // no NUL behind it
	require.NoError(t, err)
	require.Equal(t, 9_999_999_999, <-got)

	_, err = c.Count(within(t), 10_000_000_000)
	require.ErrorContains(t, err, "does not fit in 10 digits")
}
