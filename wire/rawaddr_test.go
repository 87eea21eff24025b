package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRawAddr(t *testing.T) {
	gid := [16]byte{0xfe, 0x80, 15: 1}
	r := MakeRawAddr(gid, 0x1234, 0x89abcdef)
	require.Equal(t, RawAddr{
		0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // gid
		0x34, 0x12, 0, 0, // qpn, pad
		0xef, 0xcd, 0xab, 0x89, // connid
		0, 0, 0, 0, 0, 0, 0, 0, // reserved
	}, r)
	require.Equal(t, gid, r.GID())
	require.EqualValues(t, 0x1234, r.QPN())
	require.EqualValues(t, 0x89abcdef, r.ConnID())
}

func TestRawAddrText(t *testing.T) {
	for _, c := range []struct {
		text string
		addr RawAddr
	}{
		{"fi_addr_efa://[fe80::211:22ff:fe33:4455]:2561:1773838251", testRaw},
		{"fi_addr_efa://[::]:0:0", RawAddr{}},
		{"fi_addr_efa://[::ffff:192.0.2.7]:65535:4294967295", MakeRawAddr([16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 7}, 65535, 4294967295)},
	} {
		require.Equal(t, c.text, c.addr.String())
		got, err := ParseRawAddr(c.text)
		require.NoError(t, err)
		require.Equal(t, c.addr, got)
	}
	// Forms that String doesn't write.
	got, err := ParseRawAddr("fi_addr_efa://[FE80:0:0:0:0211:22ff:fe33:4455]:02561:1773838251")
	require.NoError(t, err)
	require.Equal(t, testRaw, got)
}

func TestParseRawAddrRejects(t *testing.T) {
	for _, text := range []string{
		"",
		"fe80::1",
		"fi_addr_efa://",
		"fi_addr_efa://[",
		"fi_addr_efa://[fe80::1]",
		"fi_addr_efa://[fe80::1]:1",
		"fi_addr_efa://fe80::1:1:2",
		"fi_addr_efa://[]:1:2",
		"fi_addr_efa://[fe80::1%eth0]:1:2",
		"fi_addr_efa://[192.0.2.7]:1:2",
		"fi_addr_efa://[fe80::1]:65536:2",
		"fi_addr_efa://[fe80::1]:1:4294967296",
		"fi_addr_efa://[fe80::1]:-1:2",
		"fi_addr_efa://[fe80::1]:+1:2",
		"fi_addr_efa://[fe80::1]:1:2:3",
		"fi_addr_efa://[fe80::1]:1:2 ",
		"fi_addr_efa://[fe80::1]::",
		"fi_addr_efa://[fe80::1]:0x1:2",
		"fi_sockaddr_in://192.0.2.7:1",
	} {
		got, err := ParseRawAddr(text)
		require.ErrorIs(t, err, ErrAddr, "%q", text)
		require.Zero(t, got)
	}
}

func FuzzParseRawAddr(f *testing.F) {
	f.Add(testRaw.String())
	f.Add("fi_addr_efa://[::ffff:1.2.3.4]:1:2")
	f.Add("fi_addr_efa://[::1%1]:1:2")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRawAddr(s)
		if err != nil {
			return
		}
		again, err := ParseRawAddr(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
