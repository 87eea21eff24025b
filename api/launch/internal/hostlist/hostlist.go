package hostlist

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The limits of lists.
const (
	maxText  = 1 << 20
	maxHosts = 1 << 16
	maxName  = 253 // of a host
	maxWidth = 9   // digits of a number
)

// ErrList is the error of a malformed list of nodes.
var ErrList = errors.New("hostlist: malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrList, fmt.Sprintf(format, args...))
}

// First returns the first name, and how many different ones there are: the parts of a
// heterogeneous job may share a node. The numbers in the last brackets count fastest.
func First(list string) (first string, n int, err error) {
	names := make(map[string]struct{})
	err = each(list, func(name string) {
		if len(names) == 0 {
			first = name
		}
		names[name] = struct{}{}
	})
	if err != nil {
		return "", 0, err
	}
	return first, len(names), nil
}

func each(list string, fn func(string)) error {
	if list == "" {
		return malformed("it is empty")
	}
	if len(list) > maxText {
		return malformed("%d characters", len(list))
	}
	total := 0
	for list != "" {
		pieces, rest, err := item(list)
		if err != nil {
			return err
		}
		count := 1
		for _, p := range pieces {
			if count *= p.count(); total+count > maxHosts {
				return malformed("more than %d nodes", maxHosts)
			}
		}
		total += count
		var name strings.Builder
		for i := range count {
			name.Reset()
			step := count
			for _, p := range pieces {
				step /= p.count()
				p.write(&name, i/step%p.count())
			}
			if name.Len() == 0 || name.Len() > maxName {
				return malformed("a name of %d characters", name.Len())
			}
			fn(name.String())
		}
		list = rest
	}
	return nil
}

// piece is a part of a name: a text, or what stands in brackets.
type piece struct {
	text   string
	ranges []span // nil: the text
}

// span are numbers, written with at least width digits.
type span struct{ first, last, width int }

func (p *piece) count() int {
	if p.ranges == nil {
		return 1
	}
	n := 0
	for _, s := range p.ranges {
		n += s.last - s.first + 1
	}
	return n
}

func (p *piece) write(b *strings.Builder, i int) {
	if p.ranges == nil {
		b.WriteString(p.text)
		return
	}
	for _, s := range p.ranges {
		n := s.last - s.first + 1
		if i < n {
			fmt.Fprintf(b, "%0*d", s.width, s.first+i)
			return
		}
		i -= n
	}
}

// item reads up to a comma outside of brackets, or to the end.
func item(s string) (pieces []piece, rest string, err error) {
	for s != "" {
		end := strings.IndexAny(s, ",[]")
		if end < 0 {
			end = len(s)
		}
		if end > 0 {
			if i := strings.IndexFunc(s[:end], notName); i >= 0 {
				return nil, "", malformed("character %q in a name", s[i])
			}
			pieces = append(pieces, piece{text: s[:end]})
			s = s[end:]
			continue
		}
		switch s[0] {
		case ',':
			if len(pieces) == 0 || len(s) == 1 {
				return nil, "", malformed("an empty name")
			}
			return pieces, s[1:], nil
		case ']':
			return nil, "", malformed("] without [")
		}
		inside, after, ok := strings.Cut(s[1:], "]")
		if !ok {
			return nil, "", malformed("[ without ]")
		}
		ranges, err := spans(inside)
		if err != nil {
			return nil, "", err
		}
		if len(pieces) >= 16 {
			return nil, "", malformed("too many brackets in a name")
		}
		pieces, s = append(pieces, piece{ranges: ranges}), after
	}
	return pieces, "", nil
}

func notName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}

func spans(s string) ([]span, error) {
	var all []span
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err := digits(low)
		if err != nil {
			return nil, err
		}
		last, err := digits(high)
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, malformed("range %q", part)
		}
		if n += last - first + 1; n > maxHosts {
			return nil, malformed("more than %d nodes", maxHosts)
		}
		all = append(all, span{first, last, len(low)})
	}
	return all, nil
}

func digits(s string) (int, error) {
	if s == "" || len(s) > maxWidth || strings.Trim(s, "0123456789") != "" {
		return 0, malformed("number %q", s)
	}
	return strconv.Atoi(s)
}
