// Pause holds a pod's namespaces open: it does nothing until it is told to end.
//
// As process 1 of a pod with a shared process namespace it is also the parent of every orphan, so it
// collects what ends. SIGINT and SIGTERM end it with 0.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var version = "unknown"

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "-v" || os.Args[1] == "--version") {
		fmt.Println("pause", version)
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "pause: warning: not process 1 of its namespace, orphans go elsewhere")
	}
	os.Exit(wait())
}

func wait() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	reap() // children that ended before the handler was in place
	for received := range signals {
		if received != syscall.SIGCHLD {
			return 0
		}
		reap()
	}
	return 1
}

// Signals of the same kind are merged while one is pending: collect until nothing is left.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}
