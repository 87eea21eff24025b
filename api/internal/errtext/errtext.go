// Package errtext gives the errors of the packages with a promise one form, on one line: the
// package's name, the operation, the cause. What a package below says in front of its own
// errors is left out of the text of the cause; errors.Is and errors.As find all that is within.
package errtext

import (
	"errors"
	"slices"
	"strings"
)

// prefixes are what those packages begin their errors with.
var prefixes = []string{"efa: ", "coll: ", "efanet: ", "remote: ", "launch: ", "local: ", "efadebug: ", "efatest: "}

// Error is the error of a call of package Package.
type Error struct {
	Package string
	Op      string // "" if the package's name says enough
	Err     error
}

// Error is one line.
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Package + ": " + Cause(e.Err)
	}
	return e.Package + ": " + e.Op + ": " + Cause(e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wrap makes *err the error of a call, unless it is nil. It is for defer.
func Wrap(pkg, op string, err *error) {
	if *err != nil {
		*err = &Error{pkg, op, *err}
	}
}

// Cause is the text of an error for the end of another one: one line, without prefixes.
func Cause(err error) string {
	s := strings.ReplaceAll(strings.TrimRight(err.Error(), "\n"), "\n", "; ")
	for _, p := range prefixes {
		s = without(s, p)
	}
	return s
}

// without removes a prefix from s wherever the text of an error may begin.
func without(s, prefix string) string {
	for at := 0; ; {
		i := strings.Index(s[at:], prefix)
		if i < 0 {
			return s
		}
		i += at
		if i == 0 || strings.HasSuffix(s[:i], ": ") || strings.HasSuffix(s[:i], "; ") || s[i-1] == '(' {
			s, at = s[:i]+s[i+len(prefix):], i
			continue
		}
		at = i + len(prefix)
	}
}

// Join is errors.Join, but one line.
func Join(errs ...error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return joined{err, errs}
}

type joined struct {
	error // errors.Join's
	all   []error
}

// Error gives all texts, with one prefix.
func (j joined) Error() string {
	s := j.error.Error()
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return p + Cause(j.error)
		}
	}
	return Cause(j.error)
}

// Unwrap gives the joined errors.
func (j joined) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(j.all), func(err error) bool { return err == nil })
}
