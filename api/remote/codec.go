package remote

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// Codec makes bytes of messages and messages of bytes. Protobuf messages need none; Config.Codecs
// come first. A panic ends the one message that it was about.
type Codec interface {
	// Name names the codec to the other process, which must have one of that name. "" is protobuf.
	Name() string
	// Takes reports whether the codec is for messages of this Go type. It is asked once a type.
	Takes(t reflect.Type) bool
	// Append appends a message to b, and names its type to Decode.
	Append(b []byte, message any) (out []byte, typ string, err error)
	// Decode makes a message of b, which it must not keep.
	Decode(typ string, b []byte) (any, error)
}

// codecs are those of a Remote.
type codecs struct {
	list   []Codec
	byType sync.Map // reflect.Type to Codec
}

func newCodecs(own []Codec) *codecs {
	return &codecs{list: append(own[:len(own):len(own)], spawnCodec{}, protobuf{new(sync.Map)})}
}

func (c *codecs) of(message any) (Codec, error) {
	t := reflect.TypeOf(message)
	if found, ok := c.byType.Load(t); ok {
		return found.(Codec), nil
	}
	for _, codec := range c.list {
		if t != nil && codec.Takes(t) {
			c.byType.Store(t, codec)
			return codec, nil
		}
	}
	return nil, fmt.Errorf("%w: %T", ErrNoCodec, message)
}

// append appends a message to b.
func (c *codecs) append(b []byte, message any) (out []byte, codec, typ string, err error) {
	defer recovered(&err)
	found, err := c.of(message)
	if err != nil {
		return b, "", "", err
	}
	out, typ, err = found.Append(b, message)
	return out, found.Name(), typ, err
}

// decoder makes messages of one type.
type decoder func(b []byte) (any, error)

// decoder is that of a type. It is asked once for messages of the same type that follow one another.
func (c *codecs) decoder(codec, typ string) decoder {
	for _, found := range c.list {
		if found.Name() != codec {
			continue
		}
		if p, ok := found.(protobuf); ok {
			return p.decoder(typ)
		}
		return func(b []byte) (any, error) { return found.Decode(typ, b) }
	}
	return func([]byte) (any, error) { return nil, fmt.Errorf("%w: one of codec %q", ErrNoCodec, codec) }
}

// decode makes a message of b.
func (d decoder) decode(b []byte) (message any, err error) {
	defer recovered(&err)
	return d(b)
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("remote: the codec panicked: %v", p)
	}
}

// protobuf is the codec of messages that have none.
type protobuf struct {
	decoders *sync.Map // of types that have come, by their names
}

var protoMessage = reflect.TypeFor[proto.Message]()

func (protobuf) Name() string { return "" }

func (protobuf) Takes(t reflect.Type) bool { return t.Implements(protoMessage) }

func (protobuf) Append(b []byte, message any) ([]byte, string, error) {
	m := message.(proto.Message)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	return b, string(m.ProtoReflect().Descriptor().FullName()), err
}

func (p protobuf) Decode(typ string, b []byte) (any, error) { return p.decoder(typ)(b) }

func (p protobuf) decoder(typ string) decoder {
	if found, ok := p.decoders.Load(typ); ok {
		return found.(decoder)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(typ))
	if err != nil {
		return func([]byte) (any, error) { return nil, err }
	}
	empty := maker(t)
	d := decoder(func(b []byte) (any, error) {
		m := empty()
		return m, proto.UnmarshalOptions{Merge: true}.Unmarshal(b, m)
	})
	p.decoders.Store(typ, d)
	return d
}

// maker makes empty messages of a type. Those of types that protoc generates are made without protoreflect, which takes as long
// as to decode a short message.
func maker(t protoreflect.MessageType) func() proto.Message {
	if info, ok := t.(*protoimpl.MessageInfo); ok && info.GoReflectType.Implements(protoMessage) {
		return func() proto.Message { return reflect.New(info.GoReflectType.Elem()).Interface().(proto.Message) }
	}
	return func() proto.Message { return t.New().Interface() }
}

// JSON is a codec for Go types that are no protobuf messages: each value given stands for its type, a
// pointer to a struct for example. The other process needs the same types under the same names.
func JSON(values ...any) Codec {
	c := jsonCodec{map[reflect.Type]bool{}, map[string]reflect.Type{}}
	for _, v := range values {
		t := reflect.TypeOf(v)
		c.types[t], c.named[t.String()] = true, t
	}
	return c
}

type jsonCodec struct {
	types map[reflect.Type]bool
	named map[string]reflect.Type
}

func (jsonCodec) Name() string { return "json" }

func (c jsonCodec) Takes(t reflect.Type) bool { return c.types[t] }

func (c jsonCodec) Append(b []byte, message any) ([]byte, string, error) {
	text, err := json.Marshal(message)
	return append(b, text...), reflect.TypeOf(message).String(), err
}

func (c jsonCodec) Decode(typ string, b []byte) (any, error) {
	t, ok := c.named[typ]
	if !ok {
		return nil, fmt.Errorf("%w: type %q", ErrNoCodec, typ)
	}
	v := reflect.New(t)
	err := json.Unmarshal(b, v.Interface())
	return v.Elem().Interface(), err
}
