package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// The table has nccl-tests' columns, with OSU's minimum and tail beside the average.
const columns = "%12s %12s %8s %5s  %-22s %9s %9s %9s %8s %8s %7s\n"

// writeHead begins the table of an operation.
func writeHead(w io.Writer, op, buffers string) {
	fmt.Fprintf(w, "\n# %s, buffers: %s\n", op, buffers)
	fmt.Fprintf(w, columns, "#       size", "count", "type", "redop", "algorithm", "avg", "min", "p99", "algbw", "busbw", "#wrong")
	fmt.Fprintf(w, columns, "#        (B)", "(elements)", "", "", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "")
}

// writeLine writes one more line of it.
func writeLine(w io.Writer, r *result) {
	wrong := "N/A"
	if r.Wrong != nil {
		wrong = strconv.FormatInt(*r.Wrong, 10)
	}
	fmt.Fprintf(w, columns, strconv.Itoa(r.Size), strconv.Itoa(r.Count), r.Type, r.Redop, r.Algorithm,
		digits(r.Avg), digits(r.Min), digits(r.P99), digits(r.AlgBW), digits(r.BusBW), wrong)
}

// digits prints as many digits as mean something.
func digits(v float64) string {
	switch {
	case v < 100:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// report is what -json writes.
type report struct {
	Environment environment `json:"environment"`
	Results     []*result   `json:"results"`
}

func (r *report) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
