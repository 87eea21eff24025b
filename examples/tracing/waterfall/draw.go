package waterfall

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// Span is the part of a span that is drawn.
type Span struct {
	Who        string // the process
	Name       string
	Trace      string
	Start, End time.Time
	Facts      []string
	Events     []Event
	Failed     codes.Code
	Why        string
}

// Event is a moment in a span's life.
type Event struct {
	Name  string
	Time  time.Time
	Facts []string // such as "bytes=8"
}

// shown are the attributes of a span that are worth a place on its line.
var shown = map[attribute.Key]bool{
	"efa.protocol": true, "messaging.message.body.size": true, "efa.message.key": true, "efa.message.tag": true,
	"efa.backoff.planned": true, "efa.incomplete": true,
}

func factOf(kv attribute.KeyValue) (string, bool) { return fact(kv), shown[kv.Key] }

func fact(kv attribute.KeyValue) string {
	key := string(kv.Key)
	return key[strings.LastIndexByte(key, '.')+1:] + "=" + kv.Value.String()
}

// width is that of the bars, in characters.
const width = 40

// Draw writes the spans, those of one trace together on a common axis, in the order of time.
func Draw(w io.Writer, spans []Span) error {
	if len(spans) == 0 {
		_, err := fmt.Fprintln(w, "no spans")
		return err
	}
	spans = slices.Clone(spans)
	first := map[string]time.Time{} // of each trace
	for _, s := range spans {
		if at, ok := first[s.Trace]; !ok || s.Start.Before(at) {
			first[s.Trace] = s.Start
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		if a.Trace != b.Trace {
			return cmp.Or(first[a.Trace].Compare(first[b.Trace]), cmp.Compare(a.Trace, b.Trace))
		}
		return a.Start.Compare(b.Start)
	})
	var b strings.Builder
	for i, j := 0, 0; i < len(spans); i = j {
		for j = i; j < len(spans) && spans[j].Trace == spans[i].Trace; j++ {
		}
		fmt.Fprintf(&b, "\n%s\n", spans[i].Trace)
		axis := axisOf(spans[i:j])
		for _, s := range spans[i:j] {
			s.draw(&b, axis)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// axisOf is the time that the spans take: each trace has an axis of its own, since a
// short message would be a dot on that of the whole program.
func axisOf(spans []Span) axis {
	begin, end := spans[0].Start, spans[0].End
	for _, s := range spans {
		if s.End.After(end) {
			end = s.End
		}
	}
	return axis{begin, max(end.Sub(begin), 1)}
}

func (s *Span) draw(b *strings.Builder, a axis) {
	fmt.Fprintf(b, "  %s %-9s %s  %v  %s",
		a.bar(s.Start, s.End), s.Who, s.Name, round(s.End.Sub(s.Start)), strings.Join(s.Facts, " "))
	if s.Failed == codes.Error {
		fmt.Fprintf(b, "  FAILED: %s", s.Why)
	}
	b.WriteByte('\n')
	for _, e := range s.Events {
		fmt.Fprintf(b, "  %s %9s   +%v %s %s\n",
			a.mark(e.Time), "", round(e.Time.Sub(s.Start)), e.Name, strings.Join(e.Facts, " "))
	}
}

// round rounds a duration to a readable precision.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Microsecond:
		return d
	case d < time.Millisecond:
		return d.Round(10 * time.Nanosecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// axis is the time that is drawn.
type axis struct {
	begin time.Time
	len   time.Duration
}

func (a axis) at(t time.Time) int {
	return min(max(int(int64(t.Sub(a.begin))*width/int64(a.len)), 0), width-1)
}

func (a axis) bar(from, to time.Time) string {
	i, j := a.at(from), a.at(to)
	return "|" + strings.Repeat(" ", i) + strings.Repeat("=", j-i+1) + strings.Repeat(" ", width-1-j) + "|"
}

func (a axis) mark(t time.Time) string {
	i := a.at(t)
	return "|" + strings.Repeat(" ", i) + "." + strings.Repeat(" ", width-1-i) + "|"
}
