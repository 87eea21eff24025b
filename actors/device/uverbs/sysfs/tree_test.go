package sysfs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestForms compares the forms with regular expressions, on texts near them.
func TestForms(t *testing.T) {
	name := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}$`)
	uverbs := regexp.MustCompile(`^uverbs[0-9]{1,6}$`)
	pci := regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	rate := regexp.MustCompile(`^([0-9]{1,6})(\.([0-9]))? Gb/sec\b`)
	near := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9_.:/ -]{0,65}`),
		rapid.StringMatching(`(uverbs|uverb|x)[0-9]{0,8}[a-z]?`),
		rapid.StringMatching(`[0-9a-fA]{3,9}:[0-9a-g]{1,3}:[0-9a-f]{2}[.:][0-8]{0,2}:?`),
		rapid.StringMatching(`[0-9]{0,7}(\.[0-9]{0,2}){0,2} Gb/sec( \(4X EDR\)|[a-z_.é]?)`),
		rapid.String(),
	)
	check := func(t interface {
		Errorf(string, ...any)
	}, s string,
	) {
		assert.Equal(t, name.MatchString(s), isName(s), "%q", s)
		assert.Equal(t, uverbs.MatchString(s), isUverbs(s), "%q", s)
		assert.Equal(t, pci.MatchString(s), isPCI(s), "%q", s)
		whole, tenth, ok := cutRate(s)
		m := rate.FindStringSubmatch(s)
		if assert.Equal(t, m != nil, ok, "%q", s) && ok {
			assert.Equal(t, []string{m[1], m[3]}, []string{whole, tenth}, "%q", s)
		}
	}
	for _, s := range []string{
		"", "efa_0", "-x", "rdmap0s6-rdma", strings.Repeat("a", 63), strings.Repeat("a", 64), "uverbs0", "uverbs",
		"0000:00:1e.0", "0000:00:1e.8", "10000:00:1e.7", "100 Gb/sec (4X EDR)", "2.5 Gb/sec", "2. Gb/sec", "5 Gb/second", "5 Gb/sec Gb/sec",
	} {
		check(t, s)
	}
	rapid.Check(t, func(r *rapid.T) { check(r, near.Draw(r, "s")) })
}
