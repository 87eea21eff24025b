package agent

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// words are the key=value words of a line.
type words map[string]string

// split takes a line apart; text= goes on to its end.
func split(line string) (verb string, w words) {
	head, text, hasText := strings.Cut(line, " text=")
	fields := strings.Fields(head)
	w = words{}
	if hasText {
		w["text"] = text
	}
	for i, f := range fields {
		if i == 0 {
			verb = f
			continue
		}
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			value = "1"
		}
		w[key] = value
	}
	return verb, w
}

func (w words) has(key string) bool { _, ok := w[key]; return ok }

func (w words) uint(key string) uint64 {
	v, _ := strconv.ParseUint(w[key], 0, 64)
	return v
}

// int is a number, or otherwise where there is none.
func (w words) int(key string, otherwise int) int {
	v, err := strconv.ParseInt(w[key], 0, 64)
	if err != nil {
		return otherwise
	}
	return int(v)
}

func (w words) bytes(key string) []byte {
	b, err := hex.DecodeString(w[key])
	if err != nil {
		return nil
	}
	return b
}

// remoteCQData is libfabric's FI_REMOTE_CQ_DATA.
const remoteCQData = 1 << 17

// outcome reads the line of a completion.
func (w words) outcome() party.Outcome {
	return party.Outcome{
		Errno: w.int("err", 0), Provider: w.int("prov", 0), Text: w["text"],
		N: w.int("len", 0), Lost: w.int("lost", 0),
		Tag: w.uint("tag"), Data: w.uint("data"), HasData: w.uint("flags")&remoteCQData != 0,
		From: party.Peer(w.int("source", -1)), Content: w.content(), Result: w.bytes("hex"),
	}
}

func (w words) content() party.Content {
	return party.Content{
		Seed: w.int("seed", -1), Bad: w.int("bad", -1), Over: w.int("over", -1), Untouched: w.has("untouched"),
	}
}

// line builds a command.
type line struct{ strings.Builder }

func (l *line) verb(v string)              { l.WriteString(v) }
func (l *line) text(key, v string)         { fmt.Fprintf(l, " %s=%s", key, v) }
func (l *line) uint(key string, v uint64)  { l.text(key, strconv.FormatUint(v, 10)) }
func (l *line) num(key string, v int)      { l.text(key, strconv.Itoa(v)) }
func (l *line) bytes(key string, v []byte) { l.text(key, hex.EncodeToString(v)) }
func (l *line) flag(key string, is bool)   { l.when(is, func() { l.text(key, "1") }) }
func (l *line) when(is bool, then func()) {
	if is {
		then()
	}
}
