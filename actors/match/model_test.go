package match

import "slices"

// model is the reference: two slices, searched from the oldest on.
type model struct {
	recvs []Recv
	msgs  []Msg
}

// accepts is the rule of matching, written from the manual and not from match.go.
func accepts(r *Recv, k Kind, tag uint64, src Source) bool {
	if r.Kind != k {
		return false
	}
	if k == Tagged && tag|r.Ignore != r.Tag|r.Ignore {
		return false
	}
	if r.Source == AnySource {
		return true
	}
	return r.Source == src && src != NotAvail
}

func (o *model) findMsg(r *Recv) int {
	return slices.IndexFunc(o.msgs, func(m Msg) bool { return accepts(r, m.Kind, m.Tag, m.Source) })
}

// Every method returns the Owner of what it took or found, or none.
const none int32 = -1

func (o *model) arrive(k Kind, tag uint64, src Source) int32 {
	i := slices.IndexFunc(o.recvs, func(r Recv) bool { return accepts(&r, k, tag, src) })
	if i < 0 {
		return none
	}
	owner := o.recvs[i].Owner
	if !o.recvs[i].Many {
		o.recvs = slices.Delete(o.recvs, i, i+1)
	}
	return owner
}

func (o *model) post(r Recv) int32 {
	i := o.findMsg(&r)
	if i < 0 {
		o.recvs = append(o.recvs, r)
		return none
	}
	owner := o.msgs[i].Owner
	o.msgs = slices.Delete(o.msgs, i, i+1)
	return owner
}

func (o *model) find(r Recv) int32 {
	if i := o.findMsg(&r); i >= 0 {
		return o.msgs[i].Owner
	}
	return none
}

func (o *model) removeRecv(owner int32) bool {
	n := len(o.recvs)
	o.recvs = slices.DeleteFunc(o.recvs, func(r Recv) bool { return r.Owner == owner })
	return len(o.recvs) < n
}

func (o *model) removeMsg(owner int32) bool {
	n := len(o.msgs)
	o.msgs = slices.DeleteFunc(o.msgs, func(m Msg) bool { return m.Owner == owner })
	return len(o.msgs) < n
}

func (o *model) rekey(owner int32, src Source) {
	for i := range o.msgs {
		if o.msgs[i].Owner == owner {
			o.msgs[i].Source = src
		}
	}
}
