package merge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/efactor/efactor/bench/internal/trial"
)

// Run is what the program printed with -json.
type Run []trial.Line

var errRun = errors.New("not what a run prints with -json")

// ReadFiles reads a run from each file.
func ReadFiles(names []string) (runs []Run, err error) {
	for _, name := range names {
		f, err := os.Open(name) //nolint:gosec // that the caller names
		if err != nil {
			return nil, err
		}
		r, err := Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Read reads a run: an object a line, none for the same case and peer as another one.
func Read(r io.Reader) (run Run, err error) {
	seen := map[[2]string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var l trial.Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", n, errRun, err)
		}
		key := [2]string{l.Case, l.Peer}
		switch {
		case l.Case == "" || l.Peer == "" || (l.Peer == trial.NoPeer) != (l.Ratio == nil) || (l.Theirs == nil) != (l.Ratio == nil):
			return nil, fmt.Errorf("line %d: %w", n, errRun)
		case l.Ratio != nil && !(*l.Ratio > 0 && *l.Ratio < math.MaxFloat64):
			return nil, fmt.Errorf("line %d: %w: ratio %g", n, errRun, *l.Ratio)
		case seen[key]:
			return nil, fmt.Errorf("line %d: %w: a second %s beside %s: a file has one run", n, errRun, l.Case, l.Peer)
		}
		seen[key] = true
		run = append(run, l)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(run) == 0 {
		return nil, fmt.Errorf("%w: nothing", errRun)
	}
	return run, nil
}
