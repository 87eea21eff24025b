package wire

import "strconv"

// Summary describes a packet in one line, for logs, captures and scenario
// files: its type, its fields under the specification's names, and as len the
// bytes of data behind the headers if the type may have data.
//
//	EAGER_MSGRTM msg_id=0 raw_addr=fi_addr_efa://[fe80::1]:7:9 len=10
//	CTS send_id=7 recv_id=9 recv_length=65536 connid=0xa1b2c3d4
//
// A packet that doesn't parse gives the error and the datagram's length. Summary
// never panics.
func Summary(b []byte) string {
	pkt, n, err := Decode(b)
	if err != nil {
		return "BAD " + err.Error() + " len=" + strconv.Itoa(len(b))
	}
	l := make(line, 0, 160)
	l = append(l, pkt.Type().String()...)
	pkt.fields(&l)
	if pkt.Type().HasData() {
		l.uint("len", uint64(len(b)-n))
	}
	return string(l)
}

// line collects the name=value words of Summary.
type line []byte

func (l *line) word(s string) { *l = append(append(*l, ' '), s...) }

func (l *line) name(s string) {
	l.word(s)
	*l = append(*l, '=')
}

func (l *line) text(name, v string) {
	l.name(name)
	*l = append(*l, v...)
}

func (l *line) uint(name string, v uint64) {
	l.name(name)
	*l = strconv.AppendUint(*l, v, 10)
}

func (l *line) hex(name string, v uint64) {
	l.name(name)
	*l = append(*l, "0x"...)
	*l = strconv.AppendUint(*l, v, 16)
}

func (l *line) bool(name string, v bool) {
	l.name(name)
	*l = strconv.AppendBool(*l, v)
}

func (l *line) connID(has bool, connid uint32) {
	if has {
		l.hex("connid", uint64(connid))
	}
}

// iov writes a list as addr+len@key, comma-separated.
func (l *line) iov(name string, iov []RMAIOV) {
	l.name(name)
	*l = append(*l, '[')
	for i, e := range iov {
		if i > 0 {
			*l = append(*l, ',')
		}
		*l = append(*l, "0x"...)
		*l = strconv.AppendUint(*l, e.Addr, 16)
		*l = append(*l, '+')
		*l = strconv.AppendUint(*l, e.Len, 10)
		*l = append(*l, '@')
		*l = strconv.AppendUint(*l, e.Key, 10)
	}
	*l = append(*l, ']')
}
