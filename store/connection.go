package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"

	"modernc.org/sqlite"
)

// connection is the one SQLite connection and its prepared statements. It uses
// the driver directly: the pool of database/sql would serve one goroutine with
// one connection, for half of all the allocations that a run costs.
//
// Query texts are constants of this package and its filters' few combinations,
// so each is prepared once and there is no need to forget any.
type connection struct {
	driver  driver.Conn
	byQuery map[string]driver.Stmt
	args    []driver.NamedValue // of the statement under way
	// lastRowID is the place of the row that was inserted last.
	lastRowID int64
}

func connect(dsn string) (*connection, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	d, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &connection{driver: d, byQuery: map[string]driver.Stmt{}}, nil
}

// close finalizes the statements and ends the connection. An open transaction is
// rolled back by it.
func (c *connection) close() error {
	var errs error
	for _, stmt := range c.byQuery {
		errs = errors.Join(errs, stmt.Close())
	}
	clear(c.byQuery)
	return errors.Join(errs, c.driver.Close())
}

func (c *connection) prepared(query string) (driver.Stmt, error) {
	if stmt, ok := c.byQuery[query]; ok {
		return stmt, nil
	}
	stmt, err := c.driver.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
	if err == nil {
		c.byQuery[query] = stmt
	}
	return stmt, err
}

// script runs statements that are needed once: they are not kept.
func (c *connection) script(text string) error {
	_, err := c.driver.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// exec runs one statement and says how many rows it changed.
func (c *connection) exec(query string, args ...any) (changed int64, err error) {
	stmt, err := c.prepared(query)
	if err != nil {
		return 0, err
	}
	if err := c.bind(args); err != nil {
		return 0, err
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.args)
	if err != nil {
		return 0, err
	}
	if c.lastRowID, err = result.LastInsertId(); err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query runs one statement and hands each row to scan before it returns. An error
// of scan stops it and comes back as it is, in stopped. When ctx ends, so does the
// statement; inside a transaction that would end the turn.
func (c *connection) query(ctx context.Context, query string, args []any, scan func(scan func(dest ...any) error) error) (stopped, err error) {
	stmt, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	if err := c.bind(args); err != nil {
		return nil, err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(ctx, c.args)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); err != nil {
			if err == io.EOF {
				err = nil
			}
			return nil, errors.Join(err, rows.Close())
		}
		if err := scan(func(dest ...any) error { return assignRow(dest, row) }); err != nil {
			return err, rows.Close()
		}
	}
}

// bind takes the arguments over. The driver knows int64, text, bytes, booleans
// and nil.
func (c *connection) bind(args []any) error {
	c.args = c.args[:0]
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			arg = int64(v)
		case int64, string, []byte, bool, nil:
		default:
			return fmt.Errorf("argument %d is of type %T", i+1, arg)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return nil
}

// assignRow copies the columns of a row into variables.
func assignRow(dest []any, row []driver.Value) error {
	if len(dest) != len(row) {
		return fmt.Errorf("%d variables for %d columns", len(dest), len(row))
	}
	for i, d := range dest {
		if !assign(d, row[i]) {
			return fmt.Errorf("column %d holds %T, which does not fit %T", i+1, row[i], d)
		}
	}
	return nil
}

// assign copies a column into a variable; false where the types do not fit.
func assign(dest any, value driver.Value) bool {
	switch v := value.(type) {
	case int64:
		switch d := dest.(type) {
		case *int64:
			*d = v
		case *int:
			*d = int(v)
		case *bool:
			*d = v != 0
		case *string: // a setting is compared as text
			*d = strconv.FormatInt(v, 10)
		default:
			return false
		}
	case float64:
		d, ok := dest.(*float64)
		if ok {
			*d = v
		}
		return ok
	case string:
		return assignText(dest, v)
	case []byte:
		return assignText(dest, string(v))
	default:
		return false
	}
	return true
}

func assignText(dest any, text string) bool {
	switch d := dest.(type) {
	case *string:
		*d = text
	case *[]byte: // its room is used again
		*d = append((*d)[:0], text...)
	default:
		return false
	}
	return true
}
