package remote

import (
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FuzzEnvelopes: a frame's envelopes are taken or refused, and what is taken says the same when it
// is written again.
func FuzzEnvelopes(f *testing.F) {
	b := newBatch()
	to, from := actor.NewPID("here", "x"), actor.NewPID("there", "y")
	elsewhere := &actor.PID{Address: "elsewhere", Id: "z", RequestId: 7}
	for _, e := range []envelope{
		{target: to},
		{target: to, sender: from},
		{target: to, sender: from},
		{target: from, sender: elsewhere},
		{target: to, system: true, header: map[string]string{"k": "v"}},
	} {
		b.add("there", &e, letter{}, "codec", "type", []byte("body"))
	}
	f.Add(b.buf[frameHead:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		in := reader{b: frame, own: "here", from: "there"}
		out := newBatch()
		var all []envelope
		for len(in.b) > 0 {
			e, codec, typ, body, err := in.next()
			if err != nil {
				require.ErrorIs(t, err, errFrame)
				break
			}
			require.Equal(t, "here", e.target.Address)
			out.add("there", &e, letter{}, codec, typ, body)
			all = append(all, e)
		}
		again := reader{b: out.buf[frameHead:], own: "here", from: "there"}
		for _, e := range all {
			got, _, _, _, err := again.next()
			require.NoError(t, err)
			require.Equal(t, e.target.String(), got.target.String())
			require.Equal(t, e.sender == nil, got.sender == nil)
			if e.sender != nil {
				require.True(t, e.sender.Equal(got.sender))
			}
			require.Equal(t, e.system, got.system)
			if len(e.header) > 0 {
				require.Equal(t, e.header, got.header)
			}
		}
		require.Empty(t, again.b)
	})
}

// FuzzHello: a HELLO that is taken says the same when it is written again.
func FuzzHello(f *testing.F) {
	var h hello
	require.ErrorIs(f, h.parse(nil), errFrame)
	f.Add((&hello{name: "host:7"}).append(nil))
	f.Add([]byte("\x02\x29shm://[fe80::11ff:fe00:a01]:4711:180428938\x04name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again hello
		if err := h.parse(b); err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		require.NoError(t, again.parse(h.append(nil)))
		require.Equal(t, h.name, again.name)
		require.True(t, h.address.Equal(again.address))
	})
}

// TestDecoder: a message of a generated type and one of a type that is known at run time alone are decoded.
func TestDecoder(t *testing.T) {
	generated := wrapperspb.String("text")
	b, err := proto.Marshal(generated)
	require.NoError(t, err)
	known := dynamicpb.NewMessageType(generated.ProtoReflect().Descriptor())
	for _, typ := range []protoreflect.MessageType{generated.ProtoReflect().Type(), known} {
		m := maker(typ)()
		require.Equal(t, typ, m.ProtoReflect().Type())
		require.NoError(t, proto.Unmarshal(b, m))
		require.True(t, proto.Equal(generated, m))
	}
	p := protobuf{new(sync.Map)}
	for range 2 {
		m, err := p.Decode("google.protobuf.StringValue", b)
		require.NoError(t, err)
		require.True(t, proto.Equal(generated, m.(proto.Message)))
		_, err = p.Decode("nobody.Knows", b)
		require.ErrorIs(t, err, protoregistry.NotFound)
	}
}
