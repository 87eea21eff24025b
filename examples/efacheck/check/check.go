package check

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// Config says what Run is to look at. Out is required.
type Config struct {
	Device  string // name of the card; "": the best
	Out     io.Writer
	Answers bool // print the answers alone
}

// outcome is what a check found: answers by name, in order, and a figure.
type outcome struct {
	answers [][2]string
	figure  string
}

func (o *outcome) say(name, format string, args ...any) {
	o.answers = append(o.answers, [2]string{name, fmt.Sprintf(format, args...)})
}

// step is one check.
type step struct {
	name string
	run  func(ctx context.Context, c *card, o *outcome) error
}

var steps = []step{
	{"limits", limits},
	{"queue pairs", queuePairs},
	{"sends", sends},
	{"gathered sends", gathered},
	{"receiver not ready", notReady},
	{"wrong destinations", wrongDestinations},
	{"regions", regions},
	{"RDMA read", rdmaRead},
	{"RDMA write", rdmaWrite},
	{"RDMA refused", rdmaRefused},
	{"handles", handles},
	{"wake-up", wakeUp},
	{"latency", latency},
	{"bandwidth", bandwidth},
	{"messages", messages},
	{"remote memory", remoteMemory},
}

//go:embed emulator.txt
var emulator string

// expected are the emulator's answers by name.
func expected() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(emulator) {
		if name, answer, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			m[name] = answer
		}
	}
	return m
}

// Run goes through all checks, and returns how many failed. The error is that there is no
// card to try, or that ctx has ended.
func Run(ctx context.Context, cfg Config) (failed int, err error) {
	dev, err := efa.OpenDevice(strings.TrimSuffix("efa:"+cfg.Device, ":"))
	if err != nil {
		return 0, fmt.Errorf("no card to check: %w", err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r := report{out: cfg.Out, bare: cfg.Answers, want: expected()}
	r.begin(dev.Info().Name)
	c := &card{dev: dev, info: dev.Info()}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return r.failed, err
		}
		var o outcome
		began := time.Now()
		err := guard(func() error { return s.run(ctx, c, &o) })
		r.step(s.name, &o, time.Since(began), errors.Join(err, c.tidy()))
	}
	r.end()
	return r.failed, nil
}

// guard makes an error of a panic, so that the other checks run.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// report prints what the checks find.
type report struct {
	out     io.Writer
	bare    bool
	want    map[string]string
	differs []string
	failed  int
}

func (r *report) begin(device string) {
	if r.bare {
		return
	}
	fmt.Fprintf(r.out, "efacheck of %s, %s, Linux %s, %s/%s, %d CPUs\n", device, time.Now().UTC().Format(time.RFC3339),
		kernel(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	all, err := efa.Devices(efa.Hints{Driver: "efa"})
	if err != nil {
		fmt.Fprintln(r.out, "    devices:", err)
	}
	for _, d := range all {
		fmt.Fprintln(r.out, "   ", d)
		if d.NIC != nil && d.NIC.Firmware != "" {
			fmt.Fprintln(r.out, "    firmware", d.NIC.Firmware)
		}
	}
}

// step prints one check.
func (r *report) step(name string, o *outcome, took time.Duration, err error) {
	if err != nil {
		r.failed++
		r.differs = append(r.differs, fmt.Sprintf("%s failed: %v", name, err))
	}
	if !r.bare {
		verdict := "ok  "
		if err != nil {
			verdict = "FAIL"
		}
		fmt.Fprintf(r.out, "%s %-20s %8.1f ms  %s\n", verdict, name, took.Seconds()*1000, o.figure)
		if err != nil {
			fmt.Fprintln(r.out, "         ", err)
		}
	}
	for _, a := range o.answers {
		mark := ""
		if want, known := r.want[a[0]]; !known {
			r.differs = append(r.differs, fmt.Sprintf("%s: %s; nobody has asked the emulator", a[0], a[1]))
		} else if want != a[1] {
			mark = "   <- differs"
			r.differs = append(r.differs, fmt.Sprintf("%s: %s; the emulator: %s", a[0], a[1], want))
		}
		if r.bare {
			fmt.Fprintf(r.out, "%s: %s\n", a[0], a[1])
		} else {
			fmt.Fprintf(r.out, "       %s: %s%s\n", a[0], a[1], mark)
		}
	}
}

func (r *report) end() {
	switch {
	case r.bare:
	case len(r.differs) == 0:
		fmt.Fprintln(r.out, "Nothing differs from the emulator.")
	default:
		fmt.Fprintf(r.out, "%d differences from the emulator:\n", len(r.differs))
		for _, d := range r.differs {
			fmt.Fprintln(r.out, "  *", d)
		}
	}
}
