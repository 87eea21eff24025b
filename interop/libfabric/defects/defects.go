package defects

// Known are the releases that Seen is about: those that continuous integration runs.
var Known = []string{"1.17.0", "2.1.0"}

// Seen are the programs of testdata, and the known releases that have the defect.
var Seen = map[string][]string{
	"compare-pieces":   {"2.1.0"},
	"complex-atomic":   {"1.17.0", "2.1.0"},
	"data-cut":         {"1.17.0"},
	"directed":         {"2.1.0"},
	"discard":          {"2.1.0"},
	"read-of-nothing":  {"1.17.0", "2.1.0"},
	"refused-write":    {"1.17.0", "2.1.0"},
	"truncated-read":   {"1.17.0", "2.1.0"},
	"unchecked-rights": {"1.17.0", "2.1.0"},
	"unexpected-flag":  {"1.17.0"},
	"wider-key":        {"1.17.0", "2.1.0"},
	"write-context":    {"2.1.0"},
}
