package host

import (
	"os"
	"sync"
)

// watcher is a watch on one file; see watch.
type watcher struct {
	changed chan struct{} // buffered by one
	file    *os.File
	ended   sync.WaitGroup
}

// close ends the watch. Nil is fine.
func (w *watcher) close() {
	if w == nil {
		return
	}
	_ = w.file.Close() // ends the reading
	w.ended.Wait()
}
