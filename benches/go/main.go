// The logs of etcd and of HashiCorp, measured in a process of their own by `cargo bench --bench
// rivals --features go`.
//
// The one argument is a task, as JSON. What it comes to goes to standard output, a line of JSON
// each; a line of standard input answers a line that waits for the device's counters to be read.
// The end of standard input ends the process: whoever started it is gone.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// What is to be done; the same in `src/rivals/apart/task.rs`.
type task struct {
	Work    string  `json:"work"`
	Log     string  `json:"log"`
	Dir     string  `json:"dir"`
	Record  int     `json:"record"`
	Threads int     `json:"threads"`
	WarmUp  uint64  `json:"warm_up"`
	Seconds float64 `json:"seconds"`
	Commits uint64  `json:"commits"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("a task is missing: `cargo bench --bench rivals --features go` starts this program with one")
	}
	var todo task
	if err := json.Unmarshal([]byte(os.Args[1]), &todo); err != nil {
		return fmt.Errorf("the task cannot be read: %w", err)
	}
	if todo.Work == "records" {
		return showRecords(todo)
	}
	kind, known := kinds[todo.Log]
	if !known {
		return fmt.Errorf("no log `%s` here", todo.Log)
	}
	parent := listen()
	switch todo.Work {
	case "turn":
		return turn(kind, todo, parent)
	case "append":
		return appendBulk(kind, todo)
	case "read":
		return readBulk(kind, todo)
	}
	return fmt.Errorf("no work `%s` here", todo.Work)
}

// Prints the first records of each thread, so that a test holds them beside those of Rust.
func showRecords(todo task) error {
	for writer := range todo.Threads {
		records := newRecords(writer, todo.Record)
		for range todo.Commits {
			fmt.Println(hex.EncodeToString(records.following()))
		}
	}
	return nil
}

// Answers of whoever started this process, which does not outlive it.
func listen() <-chan struct{} {
	answers := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			answers <- struct{}{}
		}
		os.Exit(1)
	}()
	return answers
}

func say(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}
