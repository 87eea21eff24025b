package pmi

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// records is PMI-2.
type records struct {
	c          *conn
	rank, size int
	job        string
}

// The limits of PMI-2 are fixed: keys of 64 characters and values of 1024, with the zero
// at their end.
const (
	maxKey2   = 63
	maxValue2 = 1023
)

// lengthLen is how many characters a record's length has, spaces among them.
const lengthLen = 6

func (r *records) begin(cfg *Config) error {
	m, err := r.ask("fullinit", "pmijobid", cfg.JobID, "pmirank", strconv.Itoa(r.rank), "threaded", "FALSE")
	if err != nil {
		return err
	}
	rank, err := number(m.args["rank"])
	if err != nil {
		return err
	}
	size, err := number(m.args["size"])
	if err != nil {
		return err
	}
	if rank != r.rank || size != r.size {
		return malformed("it says rank %d of %d, the environment rank %d of %d", rank, size, r.rank, r.size)
	}
	if m, err = r.ask("job-getid"); err != nil {
		return err
	}
	if r.job = m.args["jobid"]; r.job == "" {
		return malformed("a job without an id")
	}
	return nil
}

func (r *records) limits() (key, value int) { return maxKey2, maxValue2 }

func (r *records) put(key, value string) error {
	_, err := r.ask("kvs-put", "key", key, "value", value)
	return err
}

func (r *records) fence() error {
	_, err := r.ask("kvs-fence")
	return err
}

func (r *records) get(key string) (string, bool, error) {
	m, err := r.ask("kvs-get", "jobid", r.job, "srcid", "-1", "key", key)
	if err != nil {
		return "", false, err
	}
	return m.args["value"], strings.EqualFold(m.args["found"], "TRUE"), nil
}

func (r *records) abort(text string) error {
	return r.say("abort", "isworld", "TRUE", "msg", clip(text))
}

func (r *records) finalize() error {
	_, err := r.ask("finalize")
	return err
}

// ask sends a command with names and values, and reads the answer.
func (r *records) ask(cmd string, args ...string) (message, error) {
	if err := r.say(cmd, args...); err != nil {
		return message{}, err
	}
	m, err := r.read()
	if err != nil {
		return message{}, err
	}
	if m.cmd != cmd+"-response" {
		return message{}, malformed("%q in answer to %s", clip(m.cmd), cmd)
	}
	return m, m.check()
}

func (r *records) say(cmd string, args ...string) error {
	var b strings.Builder
	b.WriteString("cmd=" + cmd + ";")
	for i := 0; i < len(args); i += 2 {
		b.WriteString(args[i] + "=" + strings.ReplaceAll(args[i+1], ";", ";;") + ";")
	}
	_, err := fmt.Fprintf(r.c, "%*d%s", lengthLen, b.Len(), b.String())
	return err
}

func (r *records) read() (message, error) {
	var head [lengthLen]byte
	if _, err := io.ReadFull(r.c.r, head[:]); err != nil {
		return message{}, err
	}
	n, err := number(strings.TrimSpace(string(head[:])))
	if err != nil {
		return message{}, err
	}
	if n > maxMessage {
		return message{}, malformed("a record of %d characters", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.c.r, b); err != nil {
		return message{}, err
	}
	return parseRecord(string(b))
}

// parseRecord reads fields name=value; of which the first is the command. ;; in a value
// is a semicolon.
func parseRecord(s string) (m message, err error) {
	m.args = make(map[string]string)
	for rest := s; rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Contains(name, ";") {
			return message{}, malformed("record %q: a field without =", clip(s))
		}
		var value string
		if value, rest, ok = cutField(after); !ok {
			return message{}, malformed("record %q: a field without its end", clip(s))
		}
		if m.cmd == "" {
			if name != "cmd" || value == "" {
				return message{}, malformed("record %q without a command", clip(s))
			}
			m.cmd = value
			continue
		}
		if _, twice := m.args[name]; twice {
			return message{}, malformed("record %q has %q twice", clip(s), clip(name))
		}
		m.args[name] = value
	}
	if m.cmd == "" {
		return message{}, malformed("an empty record")
	}
	return m, nil
}

// cutField cuts s after the first semicolon that is not doubled.
func cutField(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != ';' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == ';' {
			b.WriteByte(';')
			i++
			continue
		}
		return b.String(), s[i+1:], true
	}
	return "", "", false
}
