package job

import "testing"

func TestAdd(t *testing.T)      { runDocument(t, "add.txt") }
func TestRefusals(t *testing.T) { runDocument(t, "refuse.txt") }
