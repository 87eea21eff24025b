// Package chart draws figures over the size of messages, both axes logarithmic.
package chart
