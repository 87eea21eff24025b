package main

import "github.com/efactor/efactor/api/coll"

// The serial reference: every rank knows what every rank brings, and so what each
// collective must give, without a message.

// value is a rank's i-th element.
func value(rank, i int) int64 { return int64(rank+1)*1_000_003 ^ int64(i)*7919 }

// from is n elements of a rank, from the given one on.
func from(rank, first, n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = value(rank, first+i)
	}
	return s
}

// all is n elements of each of the ranks, one rank after the other.
func all(ranks, first, n int) []int64 {
	var s []int64
	for r := range ranks {
		s = append(s, from(r, first, n)...)
	}
	return s
}

// sum adds n elements of the ranks up to but without the given one.
func sum(ranks, first, n int) []int64 {
	s := make([]int64, n)
	for r := range ranks {
		for i := range s {
			s[i] += value(r, first+i)
		}
	}
	return s
}

// counts is how many elements each rank has where they differ.
func counts(c *coll.Comm, n int) []int {
	s := make([]int, c.Size())
	for r := range s {
		s[r] = n * (r % 3) / 2
	}
	return s
}

// uneven is the data of all ranks, with the lengths of counts.
func uneven(c *coll.Comm, n int) []int64 {
	var s []int64
	for r, k := range counts(c, n) {
		s = append(s, from(r, 0, k)...)
	}
	return s
}

// atRoot returns, on rank 0, a buffer for the result and the expected result; nil on others.
func atRoot(c *coll.Comm, want []int64) (out, should []int64) {
	if c.Rank() != 0 {
		return nil, nil
	}
	return make([]int64, len(want)), want
}
