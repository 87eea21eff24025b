package pmi

import (
	"errors"
	"fmt"
	"io"
)

// maxLine is the size of old launchers' command buffer.
const maxLine = 1024

// lines is PMI-1.
type lines struct {
	c          *conn
	space      string // the name of the key-value space
	key, value int
}

func (l *lines) begin(*Config) error {
	m, err := l.c.ask1("cmd=get_maxes", "maxes")
	if err != nil {
		return err
	}
	for name, to := range map[string]*int{"keylen_max": &l.key, "vallen_max": &l.value} {
		n, err := number(m.args[name])
		if err != nil {
			return err
		}
		*to = n - 1 // perhaps with the zero at its end
	}
	if m, err = l.c.ask1("cmd=get_my_kvsname", "my_kvsname"); err != nil {
		return err
	}
	l.space = m.args["kvsname"]
	if l.space == "" {
		return malformed("a key-value space without a name")
	}
	l.value = min(l.value, maxLine-len(l.space)-l.key-len("cmd=put kvsname= key= value=\n")-1)
	return nil
}

func (l *lines) limits() (key, value int) { return l.key, l.value }

func (l *lines) put(key, value string) error {
	_, err := l.c.ask1(fmt.Sprintf("cmd=put kvsname=%s key=%s value=%s", l.space, key, value), "put_result")
	return err
}

func (l *lines) fence() error {
	_, err := l.c.ask1("cmd=barrier_in", "barrier_out")
	return err
}

func (l *lines) get(key string) (string, bool, error) {
	m, err := l.c.ask1(fmt.Sprintf("cmd=get kvsname=%s key=%s", l.space, key), "get_result")
	if errors.Is(err, errRefused) {
		return "", false, nil
	}
	return m.args["value"], err == nil, err
}

func (l *lines) abort(string) error {
	_, err := io.WriteString(l.c, "cmd=abort exitcode=1\n")
	return err
}

func (l *lines) finalize() error {
	_, err := l.c.ask1("cmd=finalize", "finalize_ack")
	return err
}
