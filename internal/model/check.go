package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// maxReports bounds the errors that one check reports.
const maxReports = 5

// Check judges one receiver: msgs are all messages sent to it, recvs all receives
// posted there. A receive without a message may have discarded one (a canceled one
// does); other messages that are missing were lost.
func Check(msgs []*Msg, recvs []*Recv) error { return judge(msgs, recvs, true) }

// CheckUnordered is Check for a receiver that keeps no order of messages.
func CheckUnordered(msgs []*Msg, recvs []*Recv) error { return judge(msgs, recvs, false) }

func judge(msgs []*Msg, recvs []*Recv, ordered bool) error {
	c := &check{byID: make(map[int]*Msg), taken: make(map[*Msg]*Recv)}
	for _, m := range msgs {
		c.byID[m.ID] = m
	}
	recvs = slices.Clone(recvs)
	slices.SortFunc(recvs, func(a, b *Recv) int { return cmp.Compare(a.Post, b.Post) })
	msgs = slices.Clone(msgs)
	slices.SortFunc(msgs, func(a, b *Msg) int { return cmp.Compare(a.Order, b.Order) })
	c.identify(msgs, recvs)
	if ordered {
		c.order(msgs)
	}
	if c.missing(msgs, recvs) == 0 {
		c.passedOver(msgs, recvs)
	}
	if len(c.errs) > maxReports {
		c.errs = append(c.errs[:maxReports], fmt.Errorf("and %d more", len(c.errs)-maxReports))
	}
	return errors.Join(c.errs...)
}

type check struct {
	byID  map[int]*Msg
	taken map[*Msg]*Recv
	errs  []error
}

func (c *check) report(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// identify finds out which message each receive got. Messages that do not identify
// themselves cannot be distinguished from others that match the same receives, so
// such messages go to such receives in order.
func (c *check) identify(msgs []*Msg, recvs []*Recv) {
	for _, r := range recvs {
		if r.Got == nil || r.Got.ID < 0 {
			continue
		}
		m := c.byID[r.Got.ID]
		switch {
		case m == nil:
			c.report("%v got message %d, which was not sent to it", r, r.Got.ID)
		case !r.Got.is(m):
			c.report("%v got %v as %+v", r, m, *r.Got)
		default:
			c.take(r, m)
		}
	}
	for _, r := range recvs {
		if r.Got == nil || r.Got.ID >= 0 {
			continue
		}
		i := slices.IndexFunc(msgs, func(m *Msg) bool { return c.taken[m] == nil && r.Got.is(m) })
		if i < 0 {
			c.report("%v got %+v, and no message looks like that", r, *r.Got)
			continue
		}
		c.take(r, msgs[i])
	}
}

func (c *check) take(r *Recv, m *Msg) {
	if other := c.taken[m]; other != nil {
		c.report("%v went to %v and to %v", m, other, r)
		return
	}
	if !r.Accepts(m) {
		c.report("%v got %v, which it does not take", r, m)
	}
	c.taken[m], r.Got.msg = r, m
}

// order: of two messages of one sender the later one may not have gone to a
// receive that takes the earlier one too, while that went to a later receive.
func (c *check) order(msgs []*Msg) {
	bySender := make(map[int][]*Msg)
	var senders []int
	for _, m := range msgs {
		if c.taken[m] == nil {
			continue
		}
		if bySender[m.From] == nil {
			senders = append(senders, m.From)
		}
		bySender[m.From] = append(bySender[m.From], m)
	}
	for _, s := range senders {
		list := bySender[s]
		for i, first := range list {
			r1 := c.taken[first]
			for _, second := range list[i+1:] {
				if r2 := c.taken[second]; r2.Post < r1.Post && r2.Accepts(first) {
					c.report("%v was overtaken: it went to %v, and %v to %v, which takes both", first, r1, second, r2)
				}
			}
		}
	}
}

// missing checks that what must arrive did, unless a receive that got nothing can
// have thrown it away. It returns how many messages did not arrive, sure or not.
func (c *check) missing(msgs []*Msg, recvs []*Recv) (n int) {
	var empty []*Recv
	for _, r := range recvs {
		if r.Got == nil && r.Canceled != 0 && !r.Many {
			empty = append(empty, r)
		}
	}
	thrown := make(map[*Recv]*Msg)
	for _, m := range msgs {
		if c.taken[m] != nil {
			continue
		}
		n++
		if m.Sure && !throws(thrown, empty, m, make(map[*Recv]bool)) {
			c.report("%v was lost", m)
		}
	}
	return n
}

// throws reports whether one of the receives can have thrown m away, each of them at most one message:
// one that has another can do so if that may have gone to yet another.
func throws(thrown map[*Recv]*Msg, empty []*Recv, m *Msg, asked map[*Recv]bool) bool {
	for _, r := range empty {
		if asked[r] || !r.Accepts(m) {
			continue
		}
		asked[r] = true
		if other := thrown[r]; other == nil || throws(thrown, empty, other, asked) {
			thrown[r] = m
			return true
		}
	}
	return false
}

// passedOver: a receive that got nothing may not have been there all the time
// while a later one got a message that it takes.
func (c *check) passedOver(msgs []*Msg, recvs []*Recv) {
	var empty []*Recv
	for _, r := range recvs {
		if r.Got == nil && r.Canceled != 0 {
			empty = append(empty, r)
		}
	}
	for _, m := range msgs {
		got := c.taken[m]
		for _, r := range empty {
			if r.Post >= got.Post {
				break
			}
			if got.Ended < r.Canceled && r.Accepts(m) {
				c.report("%v passed over %v, which was not used until it was canceled at %d, and went to %v by %d",
					m, r, r.Canceled, got, got.Ended)
			}
		}
	}
}
