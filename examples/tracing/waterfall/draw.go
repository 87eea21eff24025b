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

// Span is what is drawn of a span.
type Span struct {
	Who        string // the process
	Name       string
	Trace      string
	Start, End time.Time
	Events     []Event
	Failed     codes.Code
	Why        string
}

// Event is a moment in a span's life.
type Event struct {
	Name  string
	Time  time.Time
	Facts []attribute.KeyValue
}

// width is that of the bars, in characters.
const width = 40

// Draw writes the spans, those of one trace together, in the order of time.
func Draw(w io.Writer, spans []Span) error {
	if len(spans) == 0 {
		_, err := fmt.Fprintln(w, "no spans")
		return err
	}
	spans = slices.Clone(spans)
	first := map[string]time.Time{} // of each trace
	begin, end := spans[0].Start, spans[0].End
	for _, s := range spans {
		if at, ok := first[s.Trace]; !ok || s.Start.Before(at) {
			first[s.Trace] = s.Start
		}
		if s.Start.Before(begin) {
			begin = s.Start
		}
		if s.End.After(end) {
			end = s.End
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		if a.Trace != b.Trace {
			return cmp.Or(first[a.Trace].Compare(first[b.Trace]), cmp.Compare(a.Trace, b.Trace))
		}
		return a.Start.Compare(b.Start)
	})
	axis := axis{begin, max(end.Sub(begin), 1)}
	var b strings.Builder
	trace := ""
	for _, s := range spans {
		if s.Trace != trace {
			trace = s.Trace
			fmt.Fprintf(&b, "\n%s\n", trace)
		}
		s.draw(&b, axis)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Span) draw(b *strings.Builder, a axis) {
	fmt.Fprintf(b, "  %s %-9s %s  %v", a.bar(s.Start, s.End), s.Who, s.Name, round(s.End.Sub(s.Start)))
	if s.Failed == codes.Error {
		fmt.Fprintf(b, "  FAILED: %s", s.Why)
	}
	b.WriteByte('\n')
	for _, e := range s.Events {
		fmt.Fprintf(b, "  %s %9s   +%v %s", a.mark(e.Time), "", round(e.Time.Sub(s.Start)), e.Name)
		for _, f := range e.Facts {
			fmt.Fprintf(b, " %s=%s", f.Key[strings.LastIndexByte(string(f.Key), '.')+1:], f.Value.Emit())
		}
		b.WriteByte('\n')
	}
}

// round leaves as much of a duration as a person reads.
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
