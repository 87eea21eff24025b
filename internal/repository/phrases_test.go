package repository_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// phrase is one that comments and documents do without.
type phrase struct {
	pattern *regexp.Regexp
	instead string
}

// verb follows a "who" that stands for "the one who", as in "Who asks gets an answer".
const verb = ` (?:is|has|had|was|does|did|may|must|can|wants?|needs?|asks|waits|comes|holds|sends|reads|writes|polls|calls|closes|posts)\b`

var phrases = []phrase{
	{regexp.MustCompile(`(?i)\btells? whether\b`), "reports whether"},
	{regexp.MustCompile(`(?i)\blest\b`), "so that ... not"},
	{regexp.MustCompile(`(?i)\bbef(?:alls?|ell|allen)\b`), "happens to"},
	{regexp.MustCompile(`(?i)\bwho(?:so)?ever\b`), "a caller that, any rank that: name it"},
	{regexp.MustCompile(`(?i)\bas one likes\b`), "in any way"},
	{regexp.MustCompile(`(?i)\bis told\b`), "learns, is reported, receives: say what happens"},
	// Not after a comma, where "who" may have a noun, nor in a question.
	{regexp.MustCompile(`(?:^|[.:;] |\()[Ww]ho` + verb + `[^.:;?]*(?:[.:;]|$)`), "the peer that, callers that: name the subject"},
	{regexp.MustCompile(`\b(?:for|from|with|than) who` + verb), "for the one that: name it"},
}

// The places that the editor has not come to yet: folders of Go files, and documents. No
// line may be added.
const phrasesPending = "internal/repository/testdata/phrases-pending.txt"

// TestPhrases keeps comments and documents in plain English.
func TestPhrases(t *testing.T) {
	pending, found := lines(t, phrasesPending), map[string]bool{}
	check := func(place, at, text string) {
		text = strings.Join(strings.Fields(text), " ")
		for _, p := range phrases {
			m := p.pattern.FindString(text)
			if m == "" {
				continue
			}
			found[place] = true
			if !slices.Contains(pending, place) {
				assert.Fail(t, "phrase", "%s: %q; better: %s", at, m, p.instead)
			}
		}
	}
	for _, f := range goFiles(t) {
		if f.path == "internal/repository/phrases_test.go" {
			continue // it has them all
		}
		for _, g := range f.ast.Comments {
			check(path.Dir(f.path), f.at(g), g.Text())
		}
	}
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	for _, name := range append(docs, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		check(name, name, string(text))
	}
	for _, place := range pending {
		assert.True(t, found[place], "%s is clean: take it out of %s", place, phrasesPending)
	}
}

func TestPhrasePatterns(t *testing.T) {
	for text, want := range map[string]bool{
		"Has tells whether there is one.":         true,
		"so that it is told":                      true,
		"Who polls arms it.":                      true,
		"It is closed: who waits gets the error.": true,
		"room for who waits":                      true,
		"Lest it break.":                          true,
		"befell":                                  true,
		"whoever":                                 true,
		"in groups, as one likes":                 true,

		"Has reports whether there is one.":      false,
		"the peer, who has no connid":            false,
		"Who has it? Nobody.":                    false,
		"those who wait, and the one who asks":   false,
		"the rules say who may import it":        false,
		"What is left out shows by itself.":      false,
		"who sends to it; what it sends to whom": true, // a list of questions needs its question marks
	} {
		assert.Equal(t, want, slices.ContainsFunc(phrases, func(p phrase) bool { return p.pattern.MatchString(text) }), text)
	}
}

// lines gives those of a file that are neither empty nor comments.
func lines(t *testing.T, name string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}
