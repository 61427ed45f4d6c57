// Package job holds what a job is: the definition as stored, as clients send
// it, and as they read it back.
//
// It turns the parameters of cron.add and cron.update into the stored JSON
// object, and the stored JSON into typed values and read views. It decides
// nothing about runs and touches neither clock nor storage: everything is a
// function of its arguments.
//
// Invariants: keys that rota does not know survive every function here, in
// their place; a stored definition is edited on its bytes and never rebuilt
// from the typed view; what a caller may not set (id, state, timestamps) is
// refused by name.
package job
