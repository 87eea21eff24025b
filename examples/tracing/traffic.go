package main

import (
	"context"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// The tags of the messages.
const (
	tagEager = iota + 1
	tagSlow
	tagReady
	tagBurst
	tagMemory
	tagLarge
	tagEnd
)

const (
	slowBytes   = 300_000
	burst       = 24
	memoryBytes = 1 << 20
	largeBytes  = 4 << 20
	dawdle      = 20 * time.Millisecond
)

// send is the part of the first process.
func (p *party) send(ctx context.Context) error {
	if err := p.ep.SendTag(ctx, p.other, tagEager, []byte("a short message")); err != nil {
		return fmt.Errorf("short message: %w", err)
	}
	if err := p.ep.SendTag(ctx, p.other, tagSlow, make([]byte, slowBytes)); err != nil {
		return fmt.Errorf("message to a slow receiver: %w", err)
	}
	if err := p.sendBurst(ctx); err != nil {
		return fmt.Errorf("burst: %w", err)
	}
	if err := p.useMemory(ctx); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	large, err := p.ep.Domain().Alloc(largeBytes, efa.AccessRemoteRead)
	if err != nil {
		return err
	}
	if err := p.ep.SendTag(ctx, p.other, tagLarge, large.Bytes()); err != nil {
		return fmt.Errorf("large message: %w", err)
	}
	if err := large.Close(); err != nil {
		return err
	}
	return p.ep.SendTag(ctx, p.other, tagEnd, nil, efa.Complete(efa.Delivered))
}

// sendBurst sends more messages than the other side has buffers for.
func (p *party) sendBurst(ctx context.Context) error {
	if _, err := p.ep.RecvTag(ctx, efa.Match{Tag: tagReady}, nil); err != nil {
		return err
	}
	for range burst {
		if _, err := p.ep.PostSend(&efa.SendReq{To: p.other, Buf: []byte("one of many"), Tagged: true, Tag: tagBurst}); err != nil {
			return err
		}
	}
	done := make([]efa.Completion, 1)
	for range burst {
		if _, err := p.ep.SendQueue().Read(ctx, done); err != nil {
			return err
		}
		if done[0].Err != nil {
			return done[0].Err
		}
	}
	return nil
}

// useMemory writes, reads and counts in memory of the other's.
func (p *party) useMemory(ctx context.Context) error {
	var at efa.Remote
	handle := make([]byte, efa.MaxRemote)
	m, err := p.ep.RecvTag(ctx, efa.Match{Tag: tagMemory}, handle)
	if err == nil {
		err = at.UnmarshalBinary(handle[:m.N])
	}
	if err != nil {
		return err
	}
	data, err := p.ep.Domain().Alloc(memoryBytes, 0)
	if err != nil {
		return err
	}
	memory := p.ep.Memory(p.other, at)
	if err := memory.Write(ctx, data.Bytes(), efa.Complete(efa.Delivered)); err != nil {
		return err
	}
	if err := memory.Read(ctx, data.Bytes()); err != nil {
		return err
	}
	if _, err := efa.NewCell[uint64](memory).FetchAdd(ctx, 1); err != nil {
		return err
	}
	return data.Close()
}

// receive is the part of the second process.
func (p *party) receive(ctx context.Context) error {
	if _, err := p.ep.RecvTag(ctx, efa.Match{Tag: tagEager}, make([]byte, 64)); err != nil {
		return err
	}
	time.Sleep(dawdle) // the next message comes before its receive
	if _, err := p.ep.RecvTag(ctx, efa.Match{Tag: tagSlow}, make([]byte, slowBytes)); err != nil {
		return err
	}
	p.dev.Hold()
	if err := p.ep.SendTag(ctx, p.other, tagReady, nil); err != nil {
		return err
	}
	time.Sleep(dawdle) // the buffers run out
	p.dev.Release()
	for range burst {
		if _, err := p.ep.RecvTag(ctx, efa.Match{Tag: tagBurst}, make([]byte, 64)); err != nil {
			return err
		}
	}
	memory, err := p.ep.Domain().Alloc(memoryBytes, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	if err != nil {
		return err
	}
	handle, err := memory.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := p.ep.SendTag(ctx, p.other, tagMemory, handle); err != nil {
		return err
	}
	for _, m := range []struct {
		tag uint64
		n   int
	}{{tagLarge, largeBytes}, {tagEnd, 0}} {
		if _, err := p.ep.RecvTag(ctx, efa.Match{Tag: m.tag}, make([]byte, m.n)); err != nil {
			return err
		}
	}
	return memory.Close()
}
