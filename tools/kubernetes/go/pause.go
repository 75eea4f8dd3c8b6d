// What holds a pod's namespaces open: it waits to be told to stop, and reaps what is left to it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for sign := range told {
		if sign != syscall.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}
