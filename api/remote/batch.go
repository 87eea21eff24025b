package remote

import (
	"github.com/asynkron/protoactor-go/actor"
)

// batch is envelopes that leave in one frame.
type batch struct {
	buf     []byte // the frame, whose head is filled in when it leaves
	last    previous
	letters []letter
}

// letter is a message as it was sent, for the case that it cannot be delivered.
type letter struct {
	target  *actor.PID
	message any
	system  bool
}

// full is from how many bytes on a batch takes no more messages.
const full = 64 << 10

// keepBuf is the largest buffer that is used again.
const keepBuf = 2 * full

func newBatch() *batch { return &batch{buf: make([]byte, frameHead, full/16)} }

func (b *batch) add(own string, e *envelope, l letter, codec, typ string, body []byte) {
	b.buf = b.last.append(b.buf, own, e, codec, typ, body)
	b.letters = append(b.letters, l)
}

// reset empties a batch for its next use.
func (b *batch) reset() {
	b.last = previous{}
	clear(b.letters)
	b.letters = b.letters[:0]
	b.buf = b.buf[:frameHead]
	if cap(b.buf) > keepBuf {
		b.buf = make([]byte, frameHead, full)
	}
}
