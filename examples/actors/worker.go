package main

import "github.com/asynkron/protoactor-go/actor"

const perTask = 10_000 // numbers

// task is to count the primes among perTask numbers.
type task struct{ Number int }

// result is the answer.
type result struct{ Number, Primes int }

// worker is the actor that does tasks.
func worker(c actor.Context) {
	if t, ok := c.Message().(*task); ok {
		c.Request(c.Sender(), &result{t.Number, primes(t.Number*perTask, perTask)})
	}
}

func primes(from, n int) int {
	count := 0
	for i := max(from, 2); i < from+n; i++ {
		prime := true
		for d := 2; d*d <= i && prime; d++ {
			prime = i%d != 0
		}
		if prime {
			count++
		}
	}
	return count
}
