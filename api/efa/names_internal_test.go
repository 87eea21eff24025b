package efa

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// TestNames: what values of the enumerated types print as, and those that are out of range.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{Addr(7), "7"},
		{AnyAddr, "any"},
		{NoAddr, "none"},
		{Level(0), "default"},
		{Transmitted, "transmitted"},
		{Delivered, "delivered"},
		{Level(9), "Level(9)"},
		{Access(0), "none"},
		{AccessSend | AccessRemoteRead, "send|remote read"},
		{AccessRecv | 0x80, "recv|Access(0x80)"},
		{Kind(0), "none"},
		{Peeked, "peeked"},
		{Kind(99), "Kind(99)"},
		{EventKind(0), "none"},
		{PeerFailed, "peer failed"},
		{PeerClosed, "peer closed"},
		{PeerClosed + 1, "EventKind(16)"},
		{amo.Update, "update"},
		{amo.Compare, "compare"},
		{amo.Form(3), "Form(3)"},
	} {
		assert.Equal(t, c.want, c.value.String())
	}
	seen := map[string]bool{}
	for k := EventKind(0); k <= PeerClosed; k++ {
		assert.NotEmpty(t, k.String())
		assert.False(t, seen[k.String()], "%d: %v again", k, k)
		seen[k.String()] = true
	}
}

// TestMessageString: a message is one line, and a completion that has one is another.
func TestMessageString(t *testing.T) {
	raw := wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 1}, 2, 3)
	known := Message{N: 64, From: 3, raw: &raw}
	assert.Equal(t, "64 bytes from peer 3", known.String())
	known.Tag, known.Tagged, known.Data, known.HasData = 7, true, 5, true
	assert.Equal(t, "64 bytes from peer 3, tag 0x7, data 0x5", known.String())
	assert.Equal(t, "0 bytes from stranger "+raw.String(), Message{From: NoAddr, raw: &raw}.String())
	assert.Equal(t, "0 bytes from nobody", Message{From: NoAddr}.String())

	assert.Equal(t, "received (operation 9): 64 bytes from peer 3, tag 0x7, data 0x5", Completion{Kind: Received, ID: 9, Message: known}.String())
	assert.Equal(t, "sent (operation 4): 8 bytes, peer 1", Completion{Kind: Sent, ID: 4, Message: Message{N: 8, From: 1}}.String())
	assert.Equal(t, "sent: lost", Completion{Kind: Sent, Err: errors.New("lost")}.String())
}
