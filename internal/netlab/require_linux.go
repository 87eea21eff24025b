package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/efactor/efactor/internal/testenv"
)

// Require ends a test that needs a lab, if all tests are not to run or none can be made here.
func Require(t testing.TB) {
	t.Helper()
	testenv.NeedAll(t, "a network of namespaces")
	if err := possible(); err != nil {
		testenv.Missing(t, "netlab: %v", err)
	}
}

// possible tries all that a lab may need, in a namespace.
var possible = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root")
	}
	for _, tool := range []string{"ip", "nft", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("needs %s: %w", tool, err)
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return err
	}
	ns := prefix() + "probe"
	defer func() { _ = run("", "ip", "netns", "del", ns) }()
	for _, c := range []struct{ stdin, command string }{
		{"", "ip netns add " + ns},
		{"", "ip -n " + ns + " link add name br0 type bridge"},
		{"", "ip -n " + ns + " link add name a type veth peer name b"},
		{"", "ip -n " + ns + " tuntap add c mode tap"},
		{"", "tc -n " + ns + " qdisc add dev a root tbf rate 1mbit burst 16k latency 100ms"},
		{
			"table bridge x { chain y { type filter hook forward priority 0; numgen random mod 100 < 1 drop; }; }",
			"ip netns exec " + ns + " nft -f -",
		},
	} {
		if err := run(c.stdin, strings.Fields(c.command)...); err != nil {
			return err
		}
	}
	return nil
})

// run is a command with its output in the error.
func run(stdin string, args ...string) error {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
