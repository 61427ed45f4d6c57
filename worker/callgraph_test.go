package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// graph is the source of some packages and what is reached in it.
type graph struct {
	fset    *token.FileSet
	info    *types.Info
	source  map[string]*types.Package // checked from source, by import path
	funcs   map[string]*types.Func
	bodies  map[*types.Func]ast.Node
	globals map[*types.Var]ast.Expr   // package-level variables and what they start as
	fields  map[*types.Var][]ast.Expr // function fields and what is ever put into them
	from    map[string]string         // reached: by whom first
	todo    []reached
	seen    map[ast.Node]bool
	outside types.Importer
}

type reached struct {
	name string
	body ast.Node
}

type finding struct {
	at       token.Position
	in, what string
}

func newGraph() *graph {
	return &graph{
		fset: token.NewFileSet(), source: map[string]*types.Package{}, funcs: map[string]*types.Func{}, bodies: map[*types.Func]ast.Node{},
		globals: map[*types.Var]ast.Expr{}, fields: map[*types.Var][]ast.Expr{}, from: map[string]string{}, seen: map[ast.Node]bool{},
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}},
	}
}

// listed is what `go list` tells of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
	Module                  *struct{ Path string }
}

// listPackages gives the compiled interface of all packages that the named
// ones need, and those of this module in the order of their imports.
func listPackages(t *testing.T, names ...string) (exports map[string]string, own []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard,Module"}, names...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, talk.String())
	}
	exports = map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports, own
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Path == modulePath {
			own = append(own, p)
		}
	}
}

// readSource checks the named package and all of this module that it imports.
func readSource(t *testing.T, name string) *graph {
	t.Helper()
	g := newGraph()
	exports, own := listPackages(t, name)
	for _, p := range own {
		var files []*ast.File
		for _, base := range p.GoFiles {
			f, err := parser.ParseFile(g.fset, filepath.Join(p.Dir, base), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		g.check(t, p.ImportPath, files, exports)
	}
	return g
}

// Import makes a graph the importer of its own packages: those from source are
// the same everywhere, the others come from the compiler.
func (g *graph) Import(path string) (*types.Package, error) {
	if p, ok := g.source[path]; ok {
		return p, nil
	}
	return g.outside.Import(path)
}

// check types one package and notes its functions, tables and function fields.
func (g *graph) check(t *testing.T, path string, files []*ast.File, exports map[string]string) {
	t.Helper()
	if g.outside == nil {
		g.outside = importer.ForCompiler(g.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	}
	config := types.Config{Importer: g}
	pkg, err := config.Check(path, g.fset, files, g.info)
	if err != nil {
		t.Fatal(err)
	}
	g.source[path] = pkg
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				f := g.info.Defs[d.Name].(*types.Func)
				g.funcs[nameOf(f)], g.bodies[f] = f, d
			case *ast.GenDecl:
				g.noteGlobals(d)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool { g.noteFields(n); return true })
	}
}

func (g *graph) noteGlobals(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || len(v.Values) == 0 {
			continue
		}
		for i, name := range v.Names {
			if global, ok := g.info.Defs[name].(*types.Var); ok {
				g.globals[global] = v.Values[min(i, len(v.Values)-1)]
			}
		}
	}
}

// noteFields remembers what is put into fields that hold functions.
func (g *graph) noteFields(n ast.Node) {
	put := func(field types.Object, value ast.Expr) {
		v, ok := field.(*types.Var)
		if !ok || !v.IsField() {
			return
		}
		if _, isFunc := v.Type().Underlying().(*types.Signature); isFunc {
			g.fields[v.Origin()] = append(g.fields[v.Origin()], value)
		}
	}
	switch n := n.(type) {
	case *ast.CompositeLit:
		st, ok := g.info.Types[n].Type.Underlying().(*types.Struct)
		if !ok {
			return
		}
		for i, e := range n.Elts {
			if kv, keyed := e.(*ast.KeyValueExpr); keyed {
				put(g.info.Uses[kv.Key.(*ast.Ident)], kv.Value)
			} else {
				put(st.Field(i), e)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && len(n.Rhs) == len(n.Lhs) {
				put(g.info.Uses[s.Sel], n.Rhs[i])
			}
		}
	}
}

// nameOf is a function as this test writes it: the import path without the
// module, the receiver, the name.
func nameOf(f *types.Func) string {
	f = f.Origin()
	prefix := ""
	if f.Pkg() != nil {
		prefix = strings.TrimPrefix(f.Pkg().Path(), modulePath+"/") + "."
	}
	recv := f.Signature().Recv()
	if recv == nil {
		return prefix + f.Name()
	}
	star, typ := "", recv.Type()
	if p, ok := typ.(*types.Pointer); ok {
		star, typ = "*", p.Elem()
	}
	if named, ok := typ.(*types.Named); ok {
		return prefix + "(" + star + named.Obj().Name() + ")." + f.Name()
	}
	return prefix + "(interface)." + f.Name()
}

// callers are the functions that name one.
func (g *graph) callers(name string) []string {
	found := map[string]bool{}
	for f, body := range g.bodies {
		ast.Inspect(body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if used, ok := g.info.Uses[id].(*types.Func); ok && nameOf(used) == name {
					found[nameOf(f)] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// addClosures makes what is passed last to these functions a root.
func (g *graph) addClosures(t *testing.T, takers []string) {
	t.Helper()
	found := map[string]int{}
	for f, body := range g.bodies {
		ast.Inspect(body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			callee := g.calleeOf(call)
			if callee == nil || !slices.Contains(takers, nameOf(callee)) {
				return true
			}
			found[nameOf(callee)]++
			g.enter("closure in "+nameOf(f), "", call.Args[len(call.Args)-1])
			return true
		})
	}
	for _, name := range takers {
		if found[name] == 0 {
			t.Errorf("nobody calls %s: is it called otherwise now?", name)
		}
	}
}

func (g *graph) calleeOf(call *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil
	}
	f, _ := g.info.Uses[id].(*types.Func)
	return f
}

func (g *graph) addFunc(t *testing.T, name string) {
	t.Helper()
	f, ok := g.funcs[name]
	if !ok {
		t.Errorf("there is no %s: is it called otherwise now?", name)
		return
	}
	g.reach(f, nil)
}

func (g *graph) addMethods(t *testing.T, typeName string) {
	t.Helper()
	dot := strings.LastIndexByte(typeName, '.')
	prefix, n := typeName[:dot+1]+"(*"+typeName[dot+1:]+").", 0
	for name, f := range g.funcs {
		if strings.HasPrefix(name, prefix) {
			g.reach(f, nil)
			n++
		}
	}
	if n == 0 {
		t.Errorf("%s has no methods: is it called otherwise now?", typeName)
	}
}

// reach adds a function of the source; one of another module ends the graph.
func (g *graph) reach(f *types.Func, by *reached) {
	f = f.Origin()
	who := ""
	if by != nil {
		who = by.name
	}
	if body, ok := g.bodies[f]; ok {
		g.enter(nameOf(f), who, body)
		return
	}
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) || f.Pkg() == nil || g.source[f.Pkg().Path()] == nil {
		return
	}
	face := recv.Type().Underlying().(*types.Interface)
	for _, impl := range g.funcs {
		r := impl.Signature().Recv()
		if r != nil && impl.Name() == f.Name() && types.Implements(r.Type(), face) {
			g.reach(impl, by)
		}
	}
}

func (g *graph) enter(name, by string, body ast.Node) {
	if g.seen[body] {
		return
	}
	g.seen[body] = true
	if _, known := g.from[name]; !known {
		g.from[name] = by
	}
	g.todo = append(g.todo, reached{name, body})
}

// cut ends the graph at a function, or at a variable that holds one; false when
// there is none of that name.
func (g *graph) cut(name string) bool {
	if f, ok := g.funcs[name]; ok {
		g.seen[g.bodies[f]] = true
		return true
	}
	for v, value := range g.globals {
		if strings.TrimPrefix(v.Pkg().Path(), modulePath+"/")+"."+v.Name() == name {
			g.seen[value] = true
			return true
		}
	}
	return false
}

// walk follows what is reached to its end.
func (g *graph) walk() []finding {
	var all []finding
	for len(g.todo) > 0 {
		next := g.todo[0]
		g.todo = g.todo[1:]
		ast.Inspect(next.body, func(n ast.Node) bool {
			if what := g.verdict(n); what != "" {
				all = append(all, finding{g.fset.Position(n.Pos()), next.name, what})
			}
			if id, ok := n.(*ast.Ident); ok {
				g.follow(id, &next)
			}
			return true
		})
	}
	return all
}

// follow adds what an identifier leads to.
func (g *graph) follow(id *ast.Ident, by *reached) {
	switch used := g.info.Uses[id].(type) {
	case *types.Func:
		g.reach(used, by)
	case *types.Var:
		for _, value := range g.fields[used.Origin()] {
			g.enter("value of "+used.Name()+" at "+g.fset.Position(value.Pos()).String(), by.name, value)
		}
		if value, ok := g.globals[used]; ok {
			g.enter(strings.TrimPrefix(used.Pkg().Path(), modulePath+"/")+"."+used.Name(), by.name, value)
		}
	}
}

// verdict says what is wrong with one node, "" for nothing.
func (g *graph) verdict(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SendStmt:
		return "channel send"
	case *ast.SelectStmt:
		return "select"
	case *ast.GoStmt:
		return "go statement"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "channel receive"
		}
	case *ast.RangeStmt:
		if _, isChan := g.info.Types[n.X].Type.Underlying().(*types.Chan); isChan {
			return "range over a channel"
		}
	case *ast.Ident:
		f, ok := g.info.Uses[n].(*types.Func)
		if !ok || f.Pkg() == nil {
			return ""
		}
		name := nameOf(f)
		short := strings.TrimPrefix(name, f.Pkg().Path()+".")
		if list := banned[f.Pkg().Path()]; slices.Contains(list, "*") || slices.Contains(list, short) {
			return name
		}
	}
	return ""
}

// path is how a function was reached, from itself to a root.
func (g *graph) path(name string) []string {
	var steps []string
	for ; name != "" && len(steps) < 40; name = g.from[name] {
		steps = append(steps, name)
	}
	return steps
}
