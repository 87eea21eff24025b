package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efatest/internal/model"
)

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
