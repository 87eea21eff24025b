// Package amo has the words for atomic operations on a peer's memory, for package efa:
// what they do ([Op]), on elements of what type ([Type]), and what they bring along and
// bring back ([Form]). The numbers are libfabric's.
package amo
