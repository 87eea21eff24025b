package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/model"
)

func got(m *model.Msg) *model.Got {
	return &model.Got{ID: m.ID, From: m.From, Tagged: m.Tagged, Tag: m.Tag, Len: m.Len}
}

func msg(id, from int, tag uint64) *model.Msg {
	return &model.Msg{ID: id, From: from, Tagged: true, Tag: tag, Len: id, Order: id, Sure: true}
}

func recv(post int, tag, ignore uint64, m *model.Msg) *model.Recv {
	r := &model.Recv{Tagged: true, Tag: tag, Ignore: ignore, Source: model.Any, Post: post, Ended: 100 + post}
	if m != nil {
		r.Got = got(m)
	}
	return r
}

const all = ^uint64(0)

func TestCheck(t *testing.T) {
	a, b, other := msg(1, 0, 7), msg(2, 0, 8), msg(3, 1, 7)
	canceled := func(r *model.Recv, at int) *model.Recv { r.Canceled = at; return r }
	as := func(r *model.Recv, change func(*model.Got)) *model.Recv { change(r.Got); return r }
	for _, x := range []struct {
		name  string
		msgs  []*model.Msg
		recvs []*model.Recv
		wrong string
	}{
		{"in order", []*model.Msg{a, b}, []*model.Recv{recv(1, 0, all, a), recv(2, 0, all, b)}, ""},
		{"overtaken", []*model.Msg{a, b}, []*model.Recv{recv(1, 0, all, b), recv(2, 0, all, a)}, "overtaken"},
		{"the tag decides", []*model.Msg{a, b}, []*model.Recv{recv(1, 8, 0, b), recv(2, 0, all, a)}, ""},
		{"senders are independent", []*model.Msg{a, other}, []*model.Recv{recv(1, 7, 0, other), recv(2, 7, 0, a)}, ""},
		{"twice", []*model.Msg{a}, []*model.Recv{recv(1, 0, all, a), recv(2, 0, all, a)}, "went to"},
		{"wrong tag", []*model.Msg{a}, []*model.Recv{recv(1, 8, 0, a)}, "does not take"},
		{"lost", []*model.Msg{a}, nil, "lost"},
		{"thrown away", []*model.Msg{a}, []*model.Recv{canceled(recv(1, 7, 0, nil), 50)}, ""},
		{"each thrown away by another", []*model.Msg{a, b}, []*model.Recv{canceled(recv(1, 0, all, nil), 50), canceled(recv(2, 7, 0, nil), 50)}, ""},
		{"one thrown away, one lost", []*model.Msg{a, other}, []*model.Recv{canceled(recv(1, 0, all, nil), 50)}, "lost"},
		{"passed over", []*model.Msg{a}, []*model.Recv{canceled(recv(1, 7, 0, nil), 500), recv(2, 7, 0, a)}, "passed over"},
		{"canceled before", []*model.Msg{a}, []*model.Recv{canceled(recv(1, 7, 0, nil), 50), recv(2, 7, 0, a)}, ""},
		{"nobody sent it", []*model.Msg{a}, []*model.Recv{recv(1, 0, all, a), recv(2, 0, all, b)}, "not sent"},
		{"another length", []*model.Msg{a}, []*model.Recv{as(recv(1, 0, all, a), func(g *model.Got) { g.Len++ })}, "as {"},
		{"nameless", []*model.Msg{a}, []*model.Recv{as(recv(1, 0, all, a), func(g *model.Got) { g.ID = -1 })}, ""},
		{"nameless and unlike", []*model.Msg{a}, []*model.Recv{as(recv(1, 0, all, a), func(g *model.Got) { g.ID, g.Len = -1, 9 })}, "looks like"},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := model.Check(x.msgs, x.recvs)
			if x.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, x.wrong)
		})
	}
}

func TestPayload(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 7, 8, 9, 100, 1 << 16} {
		b := make([]byte, n)
		model.Fill(b, 77)
		require.Equal(t, -1, model.Differs(b, 77, n), n)
		if n >= 4 {
			require.Equal(t, 77, model.ID(b))
		} else {
			require.Equal(t, -1, model.ID(b))
		}
		for _, i := range []int{0, n / 2, n - 1} {
			if i < 0 || n == 0 {
				continue
			}
			b[i] ^= 1
			require.Equal(t, i, model.Differs(b, 77, n), n)
			b[i] ^= 1
		}
		require.Equal(t, -1, model.Differs(b[:n/2], 77, n), "its beginning")
	}
}
