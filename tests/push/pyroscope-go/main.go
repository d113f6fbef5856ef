// A program with Pyroscope's own client for Go. It profiles itself and sends its profiles to a URL, until its input
// ends. With the argument "check" it says instead which names of an application the client accepts.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/grafana/pyroscope-go"
)

var kept [][]byte

func work(count int) (sum int) {
	for i := 0; i < count; i++ {
		sum += i * i
	}
	return sum
}

func check(names []string) {
	for _, name := range names {
		profiler, err := pyroscope.Start(pyroscope.Config{ApplicationName: name, ServerAddress: "http://127.0.0.1:1"})
		fmt.Println(err == nil)
		if err == nil {
			profiler.Stop()
		}
	}
}

func main() {
	if os.Args[1] == "check" {
		check(os.Args[2:])
		return
	}
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "check.out",
		ServerAddress:   os.Args[1],
		UploadRate:      time.Second,
		Tags:            map[string]string{"zone": "b"},
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU,
			pyroscope.ProfileAllocSpace, pyroscope.ProfileInuseSpace,
			pyroscope.ProfileAllocObjects, pyroscope.ProfileInuseObjects,
		},
	})
	if err != nil {
		panic(err)
	}
	var over atomic.Bool
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		over.Store(true)
	}()
	for !over.Load() {
		work(100000)
		if len(kept) < 10000 {
			kept = append(kept, make([]byte, 10000))
		}
		runtime.GC()
	}
	_ = profiler.Stop()
}
