package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/wire"
)

func TestStep(t *testing.T) {
	for _, x := range []struct {
		op                   wire.AtomicOp
		was, operand, compar uint64
		want                 uint64
	}{
		{op: wire.OpMin, was: 5, operand: 3, want: 3},
		{op: wire.OpMax, was: 5, operand: 3, want: 5},
		{op: wire.OpSum, was: 250, operand: 10, want: 4},
		{op: wire.OpProd, was: 100, operand: 3, want: 44},
		{op: wire.OpLOr, was: 0, operand: 9, want: 1},
		{op: wire.OpLAnd, was: 0, operand: 9, want: 0},
		{op: wire.OpLXor, was: 7, operand: 9, want: 0},
		{op: wire.OpBOr, was: 1, operand: 6, want: 7},
		{op: wire.OpBAnd, was: 3, operand: 6, want: 2},
		{op: wire.OpBXor, was: 3, operand: 6, want: 5},
		{op: wire.OpRead, was: 3, operand: 6, want: 3},
		{op: wire.OpWrite, was: 3, operand: 6, want: 6},
		{op: wire.OpCSwap, was: 3, operand: 6, compar: 3, want: 6},
		{op: wire.OpCSwap, was: 3, operand: 6, compar: 4, want: 3},
		{op: wire.OpCSwapNE, was: 3, operand: 6, compar: 4, want: 6},
		{op: wire.OpCSwapLE, was: 3, operand: 6, compar: 3, want: 6},
		{op: wire.OpCSwapLT, was: 3, operand: 6, compar: 3, want: 3},
		{op: wire.OpCSwapGE, was: 3, operand: 6, compar: 2, want: 3},
		{op: wire.OpCSwapGT, was: 3, operand: 6, compar: 4, want: 6},
		{op: wire.OpMSwap, was: 0x35, operand: 0x6a, compar: 0x0f, want: 0x3a},
	} {
		s := model.Step{Op: x.op, Bits: 8, Operand: x.operand, Compare: x.compar}
		got, ok := s.Apply(x.was)
		require.True(t, ok, x)
		require.Equal(t, x.want, got, "%+v", x)
		s.Fetches, s.Fetched = true, x.was+1
		_, ok = s.Apply(x.was)
		require.False(t, ok)
	}
	r, _ := model.Step{Op: wire.OpSum, Bits: 64, Operand: ^uint64(0)}.Apply(3)
	require.Equal(t, uint64(2), r)
}

// TestCheckShared: messages to different endpoints have no order, those to one have, and each
// arrives where it was sent to.
func TestCheckShared(t *testing.T) {
	to := func(id, to int) *model.Msg { return &model.Msg{ID: id, To: to, Order: id + 1, Sure: true} }
	recv := func(post int, m *model.Msg) *model.Recv {
		return &model.Recv{Source: model.Any, Post: post, Ended: post + 10, Got: &model.Got{ID: m.ID}}
	}
	a, b, c := to(0, 7), to(1, 8), to(2, 7)
	r1, r2, r3 := recv(1, b), recv(2, a), recv(3, c)
	at := map[*model.Recv]int{r1: 8, r2: 7, r3: 7}
	all := []*model.Recv{r1, r2, r3}
	require.NoError(t, model.CheckShared([]*model.Msg{a, b, c}, all, at))

	at[r1] = 7
	require.ErrorContains(t, model.CheckShared([]*model.Msg{a, b, c}, all, at), "got")
	at[r1] = 8
	require.ErrorContains(t, model.CheckShared([]*model.Msg{a, b, c}, all[:2], at), "lost")
	r2.Got.ID, r3.Got.ID = 2, 0
	require.ErrorContains(t, model.CheckShared([]*model.Msg{a, b, c}, all, at), "overtaken")
}
