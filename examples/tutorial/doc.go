// Package tutorial has the programs of docs/tutorial.md.
package tutorial
