package model

// CheckShared judges a pool of receives that several endpoints have: msgs are all messages
// sent to them, recvs all receives of the pool, and at the endpoint where each one that got a
// message got it. Beyond the rules of Check, by which only messages from one endpoint to
// another have an order, a message arrives at the endpoint that it was sent to.
func CheckShared(msgs []*Msg, recvs []*Recv, at map[*Recv]int) error {
	pairs := make(map[[2]int]int)
	pair := func(from, to int) int {
		k := [2]int{from, to}
		if _, ok := pairs[k]; !ok {
			pairs[k] = len(pairs)
		}
		return pairs[k]
	}
	var ms []*Msg
	for _, m := range msgs {
		m := *m
		m.From = pair(m.From, m.To)
		ms = append(ms, &m)
	}
	var rs []*Recv
	for _, r := range recvs {
		c := *r
		if c.Got != nil {
			g := *c.Got
			g.From = pair(g.From, at[r])
			c.Got = &g
		}
		rs = append(rs, &c)
	}
	return Check(ms, rs)
}
