package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// What a turn came to; the same in `src/rivals/apart/task.rs`.
type seen struct {
	Event        string  `json:"event"`
	Commits      uint64  `json:"commits"`
	Seconds      float64 `json:"seconds"`
	P50          float64 `json:"p50_us"`
	P99          float64 `json:"p99_us"`
	P999         float64 `json:"p999_us"`
	Acknowledged uint64  `json:"acknowledged"`
	Missing      uint64  `json:"missing"`
	Foreign      uint64  `json:"foreign"`
}

// One goroutine that commits.
type writer struct {
	records      *records
	commit       func([]byte) error
	acknowledged uint64
	took         []time.Duration
	started      time.Time
	ended        time.Time
	err          error
}

func (w *writer) one() error {
	if err := w.commit(w.records.following()); err != nil {
		return err
	}
	w.acknowledged++
	return nil
}

// A whole turn, as `src/rivals/slice.rs` does it: open, warm up, commit, close, read back.
func turn(kind kind, todo task, parent <-chan struct{}) error {
	log, err := kind.create(todo.Dir)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	writers, end := newWriters(log, todo)
	// What was prepared goes to the device now, and not at somebody's first commit.
	if err := syncAll(todo.Dir); err != nil {
		return err
	}
	each(writers, func(w *writer) error {
		for range todo.WarmUp {
			if err := w.one(); err != nil {
				return err
			}
		}
		return nil
	})
	if err := firstError(writers); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := say(map[string]string{"event": "begin"}); err != nil {
		return err
	}
	<-parent
	commitFor(writers, todo)
	if err := firstError(writers); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := say(map[string]string{"event": "end"}); err != nil {
		return err
	}
	<-parent
	end()
	if err := log.close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	result := sum(writers)
	back := newFound(todo.Threads, todo.Record)
	see := func(record []byte) { back.see(record, math.MaxUint32) }
	if err := kind.read(todo.Dir, see); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	acknowledged := make([]uint64, len(writers))
	for at, w := range writers {
		acknowledged[at] = w.acknowledged
		result.Acknowledged += w.acknowledged
	}
	result.Missing, result.Foreign = back.missing(acknowledged), back.foreign
	return say(result)
}

// The writers, and what to call when they are done.
func newWriters(log openLog, todo task) ([]*writer, func()) {
	writers := make([]*writer, todo.Threads)
	for at := range writers {
		writers[at] = &writer{records: newRecords(at, todo.Record)}
	}
	if todo.Threads == 1 {
		// Nobody to share a write with: the way to another goroutine would only cost time.
		writers[0].commit = func(record []byte) error { return log.save([][]byte{record}) }
		return writers, func() {}
	}
	shared := newBatcher(log, todo.Threads)
	for _, w := range writers {
		w.commit = shared.writer()
	}
	return writers, shared.end
}

// Has all writers commit until the time is over or the commits are done.
func commitFor(writers []*writer, todo task) {
	limit := time.Duration(todo.Seconds * float64(time.Second))
	var begun atomic.Uint64
	var failed atomic.Bool
	each(writers, func(w *writer) error {
		w.started = time.Now()
		w.ended = w.started
		for !failed.Load() {
			if todo.Commits > 0 && begun.Add(1) > todo.Commits {
				break
			}
			if todo.Commits == 0 && w.ended.Sub(w.started) >= limit {
				break
			}
			began := time.Now()
			if err := w.one(); err != nil {
				failed.Store(true)
				return err
			}
			w.ended = time.Now()
			w.took = append(w.took, w.ended.Sub(began))
		}
		return nil
	})
}

// Runs `work` for all writers at the same time and waits for all.
func each(writers []*writer, work func(*writer) error) {
	gate := make(chan struct{})
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() {
			<-gate
			w.err = work(w)
		})
	}
	close(gate)
	all.Wait()
}

func firstError(writers []*writer) error {
	for _, w := range writers {
		if w.err != nil {
			return w.err
		}
	}
	return nil
}

func sum(writers []*writer) seen {
	var took []time.Duration
	first, last := writers[0].started, writers[0].ended
	for _, w := range writers {
		took = append(took, w.took...)
		if w.started.Before(first) {
			first = w.started
		}
		if w.ended.After(last) {
			last = w.ended
		}
	}
	slices.Sort(took)
	at := func(quantile float64) float64 {
		if len(took) == 0 {
			return 0
		}
		place := int(math.Ceil(quantile*float64(len(took)))) - 1
		return float64(took[max(place, 0)].Nanoseconds()) / 1e3
	}
	return seen{
		Event:   "done",
		Commits: uint64(len(took)),
		Seconds: last.Sub(first).Seconds(),
		P50:     at(0.5),
		P99:     at(0.99),
		P999:    at(0.999),
	}
}

// Writes out all that the filesystem of the directory holds back.
func syncAll(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	return unix.Syncfs(int(opened.Fd()))
}
