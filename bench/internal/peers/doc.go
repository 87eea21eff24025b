// Package peers has the systems that efactor is compared with, a file for each. What is
// not installed is an error that wraps versus.ErrAbsent and says which package has it.
package peers
