// Package board has the common parts of api/launch's boards: the errors that ranks
// exchange, and the rules for keys.
package board
