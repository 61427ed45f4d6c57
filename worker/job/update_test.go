package job

import "testing"

func TestUpdate(t *testing.T)   { runDocument(t, "update.txt") }
func TestConverge(t *testing.T) { runDocument(t, "converge.txt") }
