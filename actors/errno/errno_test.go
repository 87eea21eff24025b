package errno

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestOf: every status of a device, with libfabric's number and the provider's code for it.
func TestOf(t *testing.T) {
	for s, want := range map[device.Status]Errno{
		device.StatusOK:              0,
		device.StatusFlushed:         ErrCanceled,
		device.StatusQPInternal:      ErrInvalid,
		device.StatusUnsupportedOp:   ErrInvalid,
		device.StatusInvalidAH:       ErrInvalid,
		device.StatusInvalidLKey:     ErrInvalid,
		device.StatusLocalBadLength:  ErrMsgSize,
		device.StatusBadAddress:      ErrInvalid,
		device.StatusAbort:           ErrConnAborted,
		device.StatusBadDestQPN:      ErrNotConnected,
		device.StatusRNR:             ErrNoRx,
		device.StatusRemoteBadLength: ErrMsgSize,
		device.StatusBadStatus:       ErrRemoteIO,
		device.StatusUnresponsive:    ErrConnAborted,
		device.StatusUnknownPeer:     ErrNotConnected,
		device.StatusUnreachable:     ErrHostUnreach,
		16:                           ErrInvalid, // of no meaning yet
		17:                           ErrInvalid,
		device.StatusMismatch:        ErrInvalid,
		255:                          ErrInvalid,
	} {
		for _, shaken := range []bool{false, true} {
			code := Provider(s)
			if s == device.StatusUnresponsive {
				code = ProvUnestablishedUnresp
				if shaken {
					code = ProvEstablishedUnresp
				}
			}
			n, prov := Of(s, shaken)
			require.Equal(t, want, n, "%v", s)
			require.Equal(t, code, prov, "%v", s)
		}
	}
}

// TestProviderCodes: the provider's own codes are 4096 to 4127, each with a name and a text of
// its own; the device's have the text of their status.
func TestProviderCodes(t *testing.T) {
	require.EqualValues(t, 4096, ProvOther)
	require.EqualValues(t, 4111, ProvRMAAddr)
	require.EqualValues(t, 4118, ProvInvalidDatatype)
	require.EqualValues(t, 4124, ProvEstablishedUnresp)
	require.EqualValues(t, 4127, ProvPeerAborted)
	texts, names := map[string]Provider{}, map[string]Provider{}
	for p := ProvOther; p <= ProvPeerAborted; p++ {
		require.NotContains(t, p.String(), "code", "%d", p)
		require.NotContains(t, texts, p.String())
		require.NotEmpty(t, p.Name())
		require.NotContains(t, names, p.Name())
		texts[p.String()], names[p.Name()] = p, p
	}
	require.Len(t, names, 32)
	require.Equal(t, ProvRMAAddr, names["RMA_ADDR"])
	require.Equal(t, ProvEstablishedUnresp, names["ESTABLISHED_RECV_UNRESP"])
	for s := device.StatusOK; s <= device.StatusMismatch; s++ {
		require.Equal(t, s.String(), Provider(s).String())
		require.NotContains(t, texts, s.String())
		require.Empty(t, Provider(s).Name())
	}
	require.Equal(t, "provider code 4128", (ProvPeerAborted + 1).String())
	require.Equal(t, "status 256", Provider(256).String())
	require.Empty(t, (ProvPeerAborted + 1).Name())
	require.Empty(t, Provider(65535).Name())
}

// TestErrnoNames: every number of libfabric's own has a name and a text, and so has each that
// efactor uses.
func TestErrnoNames(t *testing.T) {
	for n, want := range map[Errno]string{
		256: "FI_EOTHER", 257: "FI_ETOOSMALL", 258: "FI_EOPBADSTATE", 259: "FI_EAVAIL", 260: "FI_EBADFLAGS", 261: "FI_ENOEQ",
		262: "FI_EDOMAIN", 263: "FI_ENOCQ", 264: "FI_ECRC", 265: "FI_ETRUNC", 266: "FI_ENOKEY", 267: "FI_ENOAV",
		268: "FI_EOVERRUN", 269: "FI_ENORX", 270: "FI_ENOMR", 271: "FI_E271",
		ErrNoData: "FI_ENODATA", ErrNoBuffers: "FI_ENOBUFS", ErrConnAborted: "FI_ECONNABORTED", ErrRemoteIO: "FI_EREMOTEIO",
	} {
		require.Equal(t, want, n.Name())
	}
	seen := map[string]bool{}
	for n := range names {
		require.NotContains(t, n.Error(), "errno", "%d", n)
		require.NotContains(t, n.Error(), "libfabric error", "%d", n)
		require.False(t, seen[n.Error()], n.Error())
		seen[n.Error()] = true
	}
	for n := range text {
		require.Contains(t, names, n)
	}
}
