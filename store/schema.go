package store

import _ "embed"

// The five cron tables, in the shape a new file gets. In a file that rota
// opened, the tables keep the shape they have: every statement of this package
// names its columns, and what a shape lacks is looked up once (see Shape).
//
//go:embed cron.sql
var cronTablesSQL string

// rota's own tables, named rota_…. They can be dropped together without
// touching a job or a run.
//
//go:embed rota.sql
var rotaTablesSQL string

// rotaSchemaVersion is the shape of the rota_ tables, kept in rota_meta. A
// file with a higher number is refused.
const rotaSchemaVersion = 3
