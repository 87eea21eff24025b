package pp

import (
	"fmt"
	"strings"
)

// Summary is what a whole run has shown, in one sentence.
type Summary struct {
	Checked bool // every byte

	sizes      int
	messages   int // each way
	unanswered int
	least      Result // of the shortest message
	most       Result // of the longest
	fastest    Result // by bytes
}

// Add takes the result of a size.
func (s *Summary) Add(r Result) {
	if s.sizes == 0 {
		s.least, s.most, s.fastest = r, r, r
	}
	if r.Bytes < s.least.Bytes {
		s.least = r
	}
	if r.Bytes > s.most.Bytes {
		s.most = r
	}
	if r.MBPerSec() > s.fastest.MBPerSec() {
		s.fastest = r
	}
	s.sizes++
	s.messages += r.Sent
	s.unanswered += max(r.Sent-r.Acked, 0)
}

// Text is the sentence, which names what carried the messages. It is "" without results.
func (s *Summary) Text(in Info) string {
	if s.sizes == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s carried %d messages each way, of ", in.Device, s.messages)
	if s.sizes > 1 {
		fmt.Fprintf(&b, "%d sizes from %s to ", s.sizes, inBytes(s.least))
	}
	b.WriteString(inBytes(s.most))
	if s.unanswered > 0 {
		fmt.Fprintf(&b, ", %d of them unanswered", s.unanswered)
	}
	if s.Checked {
		b.WriteString(", and every byte was right")
	}
	fmt.Fprintf(&b, ": one of %s takes %.2f us (p50; p99 %.2f)", inBytes(s.least), s.least.Percentile(50), s.least.Percentile(99))
	if s.fastest.Bytes >= 1<<10 { // else it's the latency that speaks
		fmt.Fprintf(&b, ", and %s go at %.0f MB/s", inBytes(s.fastest), s.fastest.MBPerSec())
	}
	return b.String()
}

// inBytes is the size of r's messages with a unit that is no other program's.
func inBytes(r Result) string {
	text := sizeText(uint64(r.Bytes))
	for suffix, unit := range map[string]string{"k": " KiB", "m": " MiB", "g": " GiB"} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			return number + unit
		}
	}
	return text + " B"
}
