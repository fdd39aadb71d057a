package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// What a part of the bulk comparison came to; the same in `src/rivals/apart/task.rs`.
type part struct {
	Event   string  `json:"event"`
	Seconds float64 `json:"seconds"`
	PeakKiB *uint64 `json:"peak_kib"`
	Missing uint64  `json:"missing"`
	Foreign uint64  `json:"foreign"`
}

// Appends records of one thread, as many at a time as the kind of log likes.
func appendBulk(kind kind, todo task) error {
	log, err := kind.create(todo.Dir)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := syncAll(todo.Dir); err != nil {
		return err
	}
	source := newRecords(0, todo.Record)
	// The log may look at all records of a batch until it is saved, so each needs its own bytes.
	batch := make([][]byte, max(kind.bulk/todo.Record, 1))
	for at := range batch {
		batch[at] = make([]byte, todo.Record)
	}
	began := time.Now()
	for left := todo.Commits; left > 0; {
		now := batch[:min(left, uint64(len(batch)))]
		for _, record := range now {
			copy(record, source.following())
		}
		if err := log.save(now); err != nil {
			return fmt.Errorf("append: %w", err)
		}
		left -= uint64(len(now))
	}
	took := time.Since(began)
	if err := log.close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return say(part{Event: "done", Seconds: took.Seconds(), PeakKiB: peakKiB()})
}

// Opens the log and reads everything back.
func readBulk(kind kind, todo task) error {
	back := newFound(1, todo.Record)
	began := time.Now()
	see := func(record []byte) { back.see(record, todo.Commits) }
	if err := kind.read(todo.Dir, see); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	return say(part{
		Event:   "done",
		Seconds: time.Since(began).Seconds(),
		PeakKiB: peakKiB(),
		Missing: back.missing([]uint64{todo.Commits}),
		Foreign: back.foreign,
	})
}

// The most memory of this process that was resident; nil where the system does not say.
func peakKiB() *uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		var peak uint64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &peak); n == 1 {
			return &peak
		}
	}
	return nil
}
