package main

// Batching by the caller: one goroutine takes all records that wait, saves them at once, and
// answers all who wait for them. It never waits for more to come.
type batcher struct {
	requests chan request
	ended    chan struct{}
}

// A record, and where its writer waits. The writer leaves the record alone meanwhile.
type request struct {
	record []byte
	answer chan<- error
}

func newBatcher(log openLog, threads int) *batcher {
	b := &batcher{requests: make(chan request, threads), ended: make(chan struct{})}
	go b.run(log)
	return b
}

func (b *batcher) run(log openLog) {
	defer close(b.ended)
	var batch [][]byte
	var waiting []chan<- error
	for first := range b.requests {
		batch = append(batch[:0], first.record)
		waiting = append(waiting[:0], first.answer)
		// Only this goroutine takes requests, so what is counted here is there.
		for range len(b.requests) {
			next := <-b.requests
			batch = append(batch, next.record)
			waiting = append(waiting, next.answer)
		}
		err := log.save(batch)
		for _, answer := range waiting {
			answer <- err
		}
	}
}

// A way to commit for one writer.
func (b *batcher) writer() func([]byte) error {
	answer := make(chan error, 1)
	return func(record []byte) error {
		b.requests <- request{record, answer}
		return <-answer
	}
}

// Ends the goroutine; no writer may be under way.
func (b *batcher) end() {
	close(b.requests)
	<-b.ended
}
