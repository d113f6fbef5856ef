// Burns CPU time in two functions, the inner one a leaf, whose return address is in a register.
package main

import (
	"os"
	"time"
)

//go:noinline
func spin(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i * sum
	}
	return sum
}

//go:noinline
func work(n int) int { return spin(n) + spin(n/2) }

func main() {
	sum := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		sum += work(300000)
	}
	os.Exit(sum & 0)
}
