// Probe is the workload of the host tests: a web server that says its name, and the clients to ask with.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	started := time.Now().UTC().Format(time.RFC3339Nano)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s %s\n", name, started)
	})
	fmt.Println("serving", name)
	return http.ListenAndServe(":8080", nil)
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func resolve(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	sort.Strings(addresses)
	fmt.Println(strings.Join(addresses, " "))
	return err
}

func main() {
	command := map[string]func() error{
		"serve":   serve,
		"get":     func() error { return get(os.Args[2]) },
		"resolve": func() error { return resolve(os.Args[2]) },
	}[os.Args[1]]
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
