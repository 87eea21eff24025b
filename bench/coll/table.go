package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/efactor/efactor/bench/internal/versus"
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
		versus.Digits(r.Avg), versus.Digits(r.Min), versus.Digits(r.P99), versus.Digits(r.AlgBW), versus.Digits(r.BusBW), wrong)
}

// environment is what a figure means nothing without.
type environment struct {
	versus.Machine

	Device   string `json:"device"`
	Progress string `json:"progress"`
	Launcher string `json:"launcher"`
	Ranks    int    `json:"ranks"`
}

// String gives lines of comment.
func (e environment) String() string {
	return fmt.Sprintf("%v\n# %d ranks, device %s, progress %s\n# launcher %s", e.Machine, e.Ranks, e.Device, e.Progress, e.Launcher)
}

// report is the output of -json.
type report struct {
	Environment environment `json:"environment"`
	Results     []*result   `json:"results"`
}

func (r *report) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
