// cgo ROUNDS: goroutines whose small stacks grow and shrink while others are in C; prints what all sums up to.
package main

/*
#include <stdint.h>
__attribute__((noinline)) uint64_t burn_c(uint64_t x, int rounds) {
    for (int i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

//go:noinline
func deep(depth int, x uint64) uint64 {
	var room [32]uint64
	room[depth%32] = x
	if depth == 0 {
		return x
	}
	return deep(depth-1, x*3+room[depth%32]) + room[depth%32]
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	sums := make([]uint64, 8)
	for i := range sums {
		i := i // One variable for all goroutines before Go 1.22.
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < rounds; round++ {
				if i%2 == 0 {
					sums[i] += uint64(C.burn_c(C.uint64_t(round), 200000))
				} else {
					done := make(chan uint64)
					go func() { done <- deep(1000+round%500, uint64(round)) }()
					sums[i] += <-done
				}
			}
		}()
	}
	all.Wait()
	sum := uint64(0)
	for _, one := range sums {
		sum += one
	}
	fmt.Println("sum", sum)
}
