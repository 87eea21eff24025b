package pp

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// Result is the result for one size.
type Result struct {
	Bytes    int // of a message
	Sent     int // messages sent
	Acked    int // answers that the client got
	Elapsed  time.Duration
	Protocol efa.Protocol // the subprotocol that carried our messages

	rounds []time.Duration // there and back, of some of them evenly spread, sorted
}

// Total is the number of bytes that went both ways.
func (r Result) Total() uint64 { return 2 * uint64(r.Sent) * uint64(r.Bytes) }

// PerTransfer is the time of a message one way, in microseconds.
func (r Result) PerTransfer() float64 {
	return float64(r.Elapsed.Nanoseconds()) / 1e3 / float64(2*r.Sent)
}

// Percentile is the time of a message one way, in microseconds, that p percent of them didn't exceed: half
// a round trip. It is of at most 1,000 of the round trips, evenly spread.
func (r Result) Percentile(p int) float64 {
	if len(r.rounds) == 0 {
		return 0
	}
	return float64(r.rounds[(len(r.rounds)-1)*p/100].Nanoseconds()) / 1e3 / 2
}

// MBPerSec is the throughput in units of 10^6 bytes a second.
func (r Result) MBPerSec() float64 {
	return float64(r.Total()) / (float64(r.Elapsed.Nanoseconds()) / 1e3)
}

// MTransfers is how many millions of messages went one way in a second.
func (r Result) MTransfers() float64 { return 1 / r.PerTransfer() }

// Table writes results in the columns of fi_pingpong, then those of ours: percentiles of usec/xfer, and
// the subprotocol. The heading comes with the first of them.
type Table struct {
	Out  io.Writer
	rows int
}

const (
	headFormat = "%-7s %-9s %-10s %-7s %11s %10s %11s %11s %9s %9s  %s\n"
	rowFormat  = "%-7s %-9d %-10s %-7s %10.6fs %10.2f %11.2f %11.4f %9.2f %9.2f  %v\n"
)

// Add writes the line of r. As in the tool, #ack is =n if all was answered, else
// how many more (+) or fewer (-) were sent than answered.
func (t *Table) Add(r Result) error {
	if t.rows++; t.rows == 1 {
		if _, err := fmt.Fprintf(t.Out, headFormat, "bytes", "#sent", "#ack", "total",
			"time", "MB/sec", "usec/xfer", "Mxfers/sec", "p50", "p99", "protocol"); err != nil {
			return err
		}
	}
	ack := "=" + strconv.Itoa(r.Acked)
	if d := r.Sent - r.Acked; d != 0 {
		ack = fmt.Sprintf("%+d", d)
	}
	_, err := fmt.Fprintf(t.Out, rowFormat, sizeText(uint64(r.Bytes)), r.Sent, ack, sizeText(r.Total()),
		r.Elapsed.Seconds(), r.MBPerSec(), r.PerTransfer(), r.MTransfers(), r.Percentile(50), r.Percentile(99), r.Protocol)
	return err
}

// WriteJSON writes r as one line of JSON: the columns of the table by their names,
// and the conditions of the measurement.
func (r Result) WriteJSON(w io.Writer, in Info) error {
	return json.NewEncoder(w).Encode(struct {
		Bytes    int     `json:"bytes"`
		Sent     int     `json:"#sent"`
		Acked    int     `json:"#ack"`
		Total    uint64  `json:"total"`
		Seconds  float64 `json:"time"`
		MB       float64 `json:"MB/sec"`
		Usec     float64 `json:"usec/xfer"`
		Mxfers   float64 `json:"Mxfers/sec"`
		P50      float64 `json:"p50"`
		P99      float64 `json:"p99"`
		Protocol string  `json:"protocol"`
		Device   string  `json:"device"`
		Progress string  `json:"progress"`
		Reason   string  `json:"progress_reason"`
		Go       string  `json:"go"`
		OS       string  `json:"os"`
		Arch     string  `json:"arch"`
		CPUs     int     `json:"cpus"`
	}{
		r.Bytes, r.Sent, r.Acked, r.Total(),
		r.Elapsed.Seconds(), r.MBPerSec(), r.PerTransfer(), r.MTransfers(), r.Percentile(50), r.Percentile(99), r.Protocol.String(),
		in.Device, in.Progress.String(), in.Reason,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
	})
}
