package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/efactor/efactor/bench/internal/chart"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/internal/versus"
)

// plotted are the families that have a diagram, with the labels of their axes.
var plotted = map[string]string{
	"latency/shm":   "Half a round trip (us)",
	"latency/tcp":   "Half a round trip (us)",
	"bandwidth/shm": "Bandwidth (GB/s)",
	"bandwidth/tcp": "Bandwidth (GB/s)",
}

// plots writes a file for each family that was measured, latency-shm.png and so on.
func (p *printer) plots(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	curves := map[string]*chart.Curves{}
	for _, o := range p.outcomes {
		family, rest := family(o.Case.Name)
		if plotted[family] == "" {
			continue
		}
		if curves[family] == nil {
			curves[family] = new(chart.Curves)
		}
		addPoints(curves[family], rest, o)
	}
	m := versus.Here()
	for family, c := range curves {
		title := fmt.Sprintf("%s: %s, %d cores, commit %s", family, m.CPU, m.Cores, m.Commit)
		err := writePlot(filepath.Join(dir, strings.ReplaceAll(family, "/", "-")+".png"), title, plotted[family], c)
		if err != nil {
			return err
		}
	}
	return nil
}

// addPoints adds the medians of a case to the curves, which have the rest of its name.
func addPoints(c *chart.Curves, rest string, o *trial.Outcome) {
	for _, s := range o.Scores {
		if s.Err != nil || len(s.Value) == 0 {
			continue
		}
		name := s.Name
		if s.Ours {
			name = "efactor" + s.Name
		}
		c.Add(strings.TrimSpace(name+" "+rest), o.Case.Size, versus.SpreadOf(s.Value).Median)
	}
}

func writePlot(path, title, label string, c *chart.Curves) (err error) {
	panel, err := chart.Panel(title, label, c)
	if err != nil {
		return err
	}
	f, err := os.Create(path) //nolint:gosec // where the caller wants it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return chart.Draw(f, panel)
}

var sizeElement = regexp.MustCompile(`^\d+([KMG]i)?B$`)

// family is the first two elements of a case's name, and what else of it is no size.
func family(name string) (family, rest string) {
	elements := strings.Split(name, "/")
	n := min(2, len(elements))
	var words []string
	for _, e := range elements[n:] {
		if !sizeElement.MatchString(e) {
			words = append(words, e)
		}
	}
	return strings.Join(elements[:n], "/"), strings.Join(words, " ")
}
