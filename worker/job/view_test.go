package job

import "testing"

func TestViewsAndRows(t *testing.T) { runDocument(t, "view.txt") }
func TestSet(t *testing.T)          { runDocument(t, "set.txt") }
func TestCheckKeys(t *testing.T)    { runDocument(t, "keys.txt") }
func TestList(t *testing.T)         { runDocument(t, "list.txt") }
