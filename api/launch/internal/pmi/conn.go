package pmi

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
)

// maxMessage bounds one message of a launcher.
const maxMessage = 64 << 10

// conn reads a launcher's messages.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func newConn(c net.Conn) *conn { return &conn{c, bufio.NewReaderSize(c, 4096)} }

// message is a command and its arguments.
type message struct {
	cmd  string
	args map[string]string
}

// line reads a message of PMI-1.
func (c *conn) line() (message, error) {
	var b []byte
	for {
		part, err := c.r.ReadSlice('\n')
		b = append(b, part...)
		if len(b) > maxMessage {
			return message{}, malformed("a line of more than %d characters", maxMessage)
		}
		if err == nil {
			return parseLine(string(b[:len(b)-1]))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return message{}, err
		}
	}
}

// parseLine reads words of the form name=value, of which the first is the command. A
// word without = belongs to a text for people.
func parseLine(s string) (m message, err error) {
	m.args = make(map[string]string)
	for i, word := range strings.Fields(s) {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case i == 0 && (name != "cmd" || value == ""):
			return message{}, malformed("line %q without a command", clip(s))
		case i == 0:
			m.cmd = value
		case ok:
			if _, twice := m.args[name]; twice {
				return message{}, malformed("line %q has %q twice", clip(s), clip(name))
			}
			m.args[name] = value
		}
	}
	if m.cmd == "" {
		return message{}, malformed("an empty line")
	}
	return m, nil
}

// ask1 says a line and reads the answer, which must be that command and not an error.
func (c *conn) ask1(say, answer string) (message, error) {
	if _, err := io.WriteString(c, say+"\n"); err != nil {
		return message{}, err
	}
	m, err := c.line()
	if err != nil {
		return message{}, err
	}
	if m.cmd != answer {
		return message{}, malformed("%q in answer to %q", clip(m.cmd), clip(say))
	}
	return m, m.check()
}

// errRefused: the launcher refused the request.
var errRefused = errors.New("pmi: refused")

// check evaluates the result, rc, which not every answer has.
func (m *message) check() error {
	rc, ok := m.args["rc"]
	if !ok || rc == "0" {
		return nil
	}
	return &refusal{cmd: m.cmd, rc: rc, text: m.args["msg"] + m.args["errmsg"]}
}

type refusal struct{ cmd, rc, text string }

// Error implements error.
func (r *refusal) Error() string {
	return "pmi: " + clip(r.cmd) + " says rc=" + clip(r.rc) + " " + strconv.Quote(clip(r.text))
}

// Unwrap implements what errors.Is needs.
func (r *refusal) Unwrap() error { return errRefused }

// number reads a decimal number that is not negative and not absurd.
func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return 0, malformed("%q is no number", clip(s))
	}
	return n, nil
}

// clip shortens a launcher's text for an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
