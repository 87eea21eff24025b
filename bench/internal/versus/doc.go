// Package versus is shared by the programs of this module: sizes on the command line, the
// machine that a figure is of, other systems' programs, and rounds in which all systems
// run once, since only ratios taken within one run are meaningful.
package versus
