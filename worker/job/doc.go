// Package job holds what a job is: the definition as stored, as clients send
// it, and as they read it back.
//
// It turns the parameters of cron.add and cron.update into the stored JSON
// object, and the stored JSON into typed values and read views. It decides
// nothing about runs and touches neither clock nor storage: everything is a
// function of its arguments.
//
// # The way of a definition
//
//	cron.add     ─ Create ──▶ definition ─ Decode ──▶ Definition ─ Compile ──▶ schedule
//	cron.add     ─ Converge ─▶    │
//	cron.update  ─ Merge ────▶    │
//	                              └─ View, PublicView, CompactView, Page ──▶ clients
//
// # Invariants
//
//   - Keys that rota does not know survive every function here, in their place.
//   - A stored definition is edited on its bytes and never rebuilt from the
//     typed view; a value that means what is stored already changes no byte.
//   - What a caller may not set (id, state, timestamps) is refused by name.
//   - A refusal is an *[Error] that says where, what and what to type next.
//   - Clients are held to the rules; rows are not: what another program or an
//     older one has written is read as far as it makes sense.
//
// # Caveats
//
// A [Row], a [Brief] and a definition share bytes with their caller: nobody
// changes them afterwards, and [Sheets] knows a definition by where it lies.
//
// A kind that this build does not run (of payload, schedule or delivery) is
// refused where somebody chooses it, and kept where a row has it.
//
// The address of a request or a webhook is checked for its form. Where it leads
// is known only when it is connected to, and is the launcher's to judge.
//
// Names are sorted without regard to Latin accents only; other scripts go by
// code point.
package job
