"""Walk over a cell's syntax tree that collects the names it reads, binds and changes."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, cast

from vibe_jupyter.notebook.name_steps import BUILTINS, Act, FunctionNames, NameStep

# Methods that change their object and return None. If a result is used, it is another class's method.
_CHANGES: Final = frozenset(
    [
        *("append", "extend", "insert", "remove", "clear", "sort", "reverse", "update", "add", "discard"),
        *("appendleft", "extendleft", "rotate", "difference_update", "intersection_update"),
        *("symmetric_difference_update", "fill", "put", "itemset", "resize", "partition", "setflags", "byteswap"),
        *("add_node", "add_nodes_from", "add_edge", "add_edges_from", "add_column", "add_row", "load_state_dict"),
        *("compile", "train", "step", "backward", "zero_grad", "build", "seed", "writerow", "write", "put_nowait"),
    ]
)
_CHANGES_AND_GIVES: Final = frozenset(
    [
        *("pop", "popleft", "popitem", "setdefault", "fit", "fit_transform", "fit_predict", "partial_fit", "send"),
        "__next__",
    ]
)
# Functions that change their first argument.
_CHANGES_FIRST: Final = frozenset(
    [
        *("shuffle", "heappush", "heappop", "heapify", "heapreplace", "insort", "insort_left", "insort_right"),
        *("copyto", "fill_diagonal", "place", "putmask", "setattr", "delattr", "next", "anext", "put_along_axis"),
    ]
)
_MAKING: Final = ("__new__", "__init__", "__post_init__", "__call__", "__init_subclass__")
_READS: Final = (Act.READ, Act.CHANGE, Act.CALL)
_BINDS: Final = (Act.BIND, Act.ALIAS, Act.DELETE)
_MAKES_SURE: Final = (Act.BIND, Act.ALIAS, Act.SURE)
_MAKES_UNSURE: Final = (Act.DELETE, Act.FORGET)
_RUNS_CODE: Final = frozenset({"exec", "run_cell", "run_line_magic", "run_cell_magic", "safe_execfile", "ex"})


class _Scope:
    """A scope. Its local names occur in no step."""

    def __init__(self, own: frozenset[str] = frozenset(), lines: Sequence[str] = ()) -> None:
        self.steps: list[NameStep] = []
        self.unknown = ""
        self.declared: set[str] = set()  # names it binds in an outer scope (global, nonlocal)
        self._own = own
        self._lines = lines
        self._sure: set[str] = set()  # names bound by now in every branch

    def _read(self, name: str) -> None:
        if name not in self._own:
            self.steps.append(NameStep(Act.READ, name))

    def _add(self, step: NameStep) -> None:
        if step.name in self._own:
            return
        self.steps.append(step)
        if step.act in _MAKES_SURE:
            self._sure.add(step.name)
        elif step.act in _MAKES_UNSURE:
            self._sure.discard(step.name)

    def _maybe(self, visit: Callable[[], None]) -> set[str]:
        """Walk code that may not run. Returns the names bound by it or before."""
        before, start = set(self._sure), len(self.steps)
        visit()
        made = {step.name for step in self.steps[start:] if step.act in (Act.BIND, Act.ALIAS)}
        for name in sorted(made):
            self._add(NameStep(Act.SURE if name in before else Act.FORGET, name))
        return made | before

    def _anything(self, why: str) -> None:
        self.unknown = self.unknown or why


class _Expressions(_Scope):
    """Walk over expressions and their binding targets."""

    def expr(self, node: ast.expr, *, dropped: bool = False) -> None:
        """Walk an expression. `dropped` means that its value is unused."""
        match node:
            case ast.Name(id=name):
                self._read(name)
            case ast.Constant():
                pass
            case ast.Attribute(value=value):
                self.expr(value)
            case ast.Call():
                self._call(node, dropped=dropped)
            case ast.Await(value=value):
                self.expr(value, dropped=dropped)
            case ast.Lambda():
                self._defaults(node)
                self._used_later(_function(node))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self._comprehension(node.generators, node.elt)
            case ast.DictComp():
                self._comprehension(node.generators, node.key, node.value)
            case ast.NamedExpr(target=target, value=value):
                self.expr(value)
                self._bind(target.id, value)
            case _:
                self.parts(node)

    def parts(self, node: ast.AST) -> None:
        """Walk the subexpressions of a node in order."""
        for field in node._fields:
            part = getattr(node, field)
            if isinstance(part, ast.expr):
                self.expr(part)
            elif isinstance(part, list):
                for one in cast("list[object]", part):
                    if isinstance(one, ast.expr):
                        self.expr(one)

    def _used_later(self, later: FunctionNames) -> None:
        for name in later.reads:
            self._read(name)
        for name in later.binds:
            self._add(NameStep(Act.CHANGE, name))

    def _comprehension(self, generators: Sequence[ast.comprehension], *values: ast.expr) -> None:
        own = frozenset(name for generator in generators for name in _target_names(generator.target))
        self.expr(generators[0].iter)
        inner = _Expressions(self._own | own)
        for place, generator in enumerate(generators):
            if place:
                inner.expr(generator.iter)
            for test in generator.ifs:
                inner.expr(test)
        for value in values:
            inner.expr(value, dropped=True)
        self.steps += inner.steps
        self.unknown = self.unknown or inner.unknown

    def _call(self, node: ast.Call, *, dropped: bool) -> None:
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.expr(value.value if isinstance(value, ast.Starred) else value)
        function = node.func
        given = tuple(one.id if isinstance(one, ast.Name) and one.id not in self._own else "" for one in node.args)
        named = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if isinstance(function, ast.Name):
            self._read(function.id)
            if function.id not in self._own:
                self.steps.append(NameStep(Act.CALL, function.id, others=given))
        elif isinstance(function, ast.Attribute):
            self._method(node, function, given, dropped=dropped)
        else:
            self.expr(function)
        if named in _RUNS_CODE and not _is_harmless_exec(node, named):
            self._anything(f"it runs code by {named}()")
        if named in _CHANGES_FIRST and node.args:
            self._change_root(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "out":
                self._change_root(keyword.value)

    def _method(self, node: ast.Call, function: ast.Attribute, given: tuple[str, ...], *, dropped: bool) -> None:
        self.expr(function.value)
        in_place = any(
            keyword.arg in ("inplace", "in_place")
            and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in node.keywords
        )
        method = function.attr
        is_change = method in _CHANGES_AND_GIVES or (dropped and (method in _CHANGES or method.endswith("_")))
        if in_place or is_change:
            if isinstance(function.value, ast.Call) and _calls(function.value, "globals"):
                self._anything("it binds names by globals()")
            self._change_root(function.value)
            return
        made = function.value.func if isinstance(function.value, ast.Call) else function.value
        if isinstance(made, ast.Name) and made.id not in self._own:
            self.steps.append(NameStep(Act.CALL, made.id, others=given, method=method))

    def target(self, node: ast.expr, value: ast.expr | None) -> None:
        """Bind or change an assignment target."""
        match node:
            case ast.Name(id=name):
                self._bind(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values: Sequence[ast.expr | None] = [None] * len(parts)
                if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts):
                    values = value.elts
                for part, one in zip(parts, values, strict=True):
                    self.target(part, one)
            case ast.Starred(value=inner):
                self.target(inner, None)
            case ast.Attribute() | ast.Subscript():
                self._change_root(node)
            case _:
                pass

    def _bind(self, name: str, value: ast.expr | None) -> None:
        if isinstance(value, ast.Constant):
            self._add(NameStep(Act.BIND, name, key=f"={value.value!r}"))
            return
        if isinstance(value, ast.Lambda):
            self._add(NameStep(Act.BIND, name, later=_function(value)))
            return
        if value is not None and (root := _part_of(value)) is not None:
            self._add(NameStep(Act.ALIAS, name, others=(root,)))
            return
        used: tuple[str, ...] = ()
        if isinstance(value, ast.Call):  # an instance of a class, a partial function
            used = tuple(one.id for one in (value.func, *value.args) if isinstance(one, ast.Name))
        self._add(NameStep(Act.BIND, name, others=tuple(one for one in used if one not in self._own)))

    def _change_root(self, node: ast.expr) -> None:
        """Change the object that `node` is a part of, and read the expressions in its brackets."""
        while True:
            match node:
                case ast.Subscript(value=inner, slice=index):
                    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "globals":
                        self._bind_global(index)
                        return
                    self.expr(index)
                    node = inner
                case ast.Attribute(value=inner):
                    node = inner
                case ast.Name(id=name):
                    self._add(NameStep(Act.CHANGE, name))
                    return
                case _:
                    self.expr(node)
                    return

    def _bind_global(self, key: ast.expr) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._add(NameStep(Act.BIND, key.value))
            self.declared.add(key.value)
        else:
            self._anything("it binds names by globals()")

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for value in _default_values(node):
            self.expr(value)

    def _iterated(self, target: ast.expr, source: ast.expr) -> None:
        root = _iterated_name(source)
        if root is not None and isinstance(target, ast.Name):
            self._add(NameStep(Act.ALIAS, target.id, others=(root,)))
        else:
            self.target(target, None)


class StatementWalk(_Expressions):
    """Walk over the statements of one scope. Its `steps` are in execution order."""

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            visit = _STATEMENTS.get(type(statement))
            if visit is not None:
                visit(self, statement)

    def _branch(self, *bodies: Sequence[ast.stmt]) -> None:
        """Walk alternatives of which one runs. Names that not all of them bind may keep their earlier value."""
        bound: list[set[str]] = []
        for statements in bodies:
            made = self._maybe(lambda statements=statements: self.body(statements))
            if not (statements and isinstance(statements[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)):
                bound.append(made)
        for name in sorted(set[str].intersection(*bound) - self._sure if bound else ()):
            self._add(NameStep(Act.SURE, name))

    def expression_statement(self, node: ast.Expr) -> None:
        self.expr(node.value, dropped=True)

    def assign(self, node: ast.Assign) -> None:
        self.expr(node.value)
        for target in node.targets:
            self.target(target, node.value)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.expr(node.value)
            self.target(node.target, node.value)

    def augmented(self, node: ast.AugAssign) -> None:
        self.expr(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
            self._add(NameStep(Act.BIND, node.target.id))
        else:
            self.target(node.target, None)

    def delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._read(target.id)
                self._add(NameStep(Act.DELETE, target.id))
            else:
                self._change_root(target)

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        self.expr(node.iter)
        self._iterated(node.target, node.iter)
        self.body(node.body)
        self._branch(node.orelse, [])

    def while_loop(self, node: ast.While) -> None:
        self.expr(node.test)
        self.body(node.body)
        self._branch(node.orelse, [])

    def condition(self, node: ast.If) -> None:
        self.expr(node.test)
        self._branch(node.body, node.orelse)

    def with_block(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.expr(item.context_expr)
            if item.optional_vars is not None:
                self.target(item.optional_vars, None)
        self.body(node.body)

    def try_block(self, node: "ast.Try | ast.TryStar") -> None:
        self.body(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                self.expr(handler.type)
            self._maybe(lambda handler=handler: self._handler(handler))
        self._branch(node.orelse, [])
        self.body(node.finalbody)

    def _handler(self, handler: ast.ExceptHandler) -> None:
        if handler.name:
            self._add(NameStep(Act.BIND, handler.name))
        self.body(handler.body)
        if handler.name:
            self._add(NameStep(Act.DELETE, handler.name))

    def match_statement(self, node: ast.Match) -> None:
        self.expr(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                match part:
                    case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                        self._add(NameStep(Act.BIND, name))
                    case ast.MatchValue(value=value):
                        self.expr(value)
                    case _:
                        pass
            if case.guard is not None:
                self.expr(case.guard)
        self._branch(*(case.body for case in node.cases), [])

    def import_modules(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._add(NameStep(Act.BIND, name, key=f"module {alias.name if alias.asname else name}"))

    def import_names(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self._add(NameStep(Act.STAR, "", key=module))
            else:
                self._add(NameStep(Act.BIND, alias.asname or alias.name, key=f"{alias.name} of {module}"))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._defaults(node)
        for decorator in node.decorator_list:
            self.expr(decorator)
        has_more = bool(node.decorator_list or _default_values(node))
        key = "" if has_more else self._text(node)
        self._add(NameStep(Act.BIND, node.name, key=key, later=_function(node)))

    def class_definition(self, node: ast.ClassDef) -> None:
        for value in (*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list):
            self.expr(value)
        inner = StatementWalk(self._own)
        inner.body(node.body)
        bound: set[str] = set()
        for step in inner.steps:
            if step.act is Act.READ and step.name not in bound:
                self._add(step)
            elif step.act in (Act.BIND, Act.ALIAS):
                bound.add(step.name)
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        told = [(method.name, _function(method)) for method in methods]
        makes = [one for name, one in told if name in _MAKING]
        later = FunctionNames(
            tuple(dict.fromkeys(name for one in makes for name in one.reads)),
            tuple(dict.fromkeys(name for one in makes for name in one.binds)),
            methods=frozenset(name for name, one in told if 0 in one.changes),
            method_reads=tuple(dict.fromkeys(name for _, one in told for name in one.reads)),
        )
        has_more = bool(node.bases or node.decorator_list or any(step.act is Act.READ for step in inner.steps))
        self._add(NameStep(Act.BIND, node.name, key="" if has_more else self._text(node), later=later))

    def _text(self, node: ast.stmt) -> str:
        return "\n".join(self._lines[node.lineno - 1 : node.end_lineno])

    def outer_names(self, node: ast.Global | ast.Nonlocal) -> None:
        self.declared.update(node.names)


def _bind_type_alias(walk: StatementWalk, node: ast.stmt) -> None:
    """Bind the name in ``type X = …``. The right side is evaluated lazily, so it reads nothing."""
    name = next(ast.iter_child_nodes(node))
    if isinstance(name, ast.Name):
        walk.steps.append(NameStep(Act.BIND, name.id))


def _calls(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _is_harmless_exec(node: ast.Call, named: str) -> bool:
    """Return whether a call binds nothing here: `exec` with a namespace, or `ex` or `run_cell` of another object."""
    if named == "exec":
        return len(node.args) > 1 and not (isinstance(node.args[1], ast.Call) and _calls(node.args[1], "globals"))
    root = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return not (isinstance(root, ast.Call) and _calls(root, "get_ipython")) and not (
        isinstance(root, ast.Name) and root.id in ("ip", "ipython", "shell")
    )


def _target_names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _target_names(part)
        case ast.Starred(value=inner):
            yield from _target_names(inner)
        case _:
            pass


def _part_of(value: ast.expr) -> str | None:
    """Return the name of the object that `value` is or is an element of, or None if it is a new object."""
    while isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Slice | ast.Tuple | ast.Compare):
        if not isinstance(value.slice, ast.Constant):
            return None
        value = value.value
    return value.id if isinstance(value, ast.Name) else None


def _iterated_name(source: ast.expr) -> str | None:
    match source:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="values")):
            return name
        case _:
            return None


def _default_values(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.expr]:
    return [*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionNames:
    """Return the effects of calling a function."""
    arguments = node.args
    places = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    rest = [one.arg for one in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs) if one is not None]
    statements = [ast.Expr(node.body)] if isinstance(node.body, ast.expr) else node.body
    walk = StatementWalk()
    walk.body(statements)
    bound = {step.name for step in walk.steps if step.act in _BINDS}
    own = frozenset({*places, *rest, *bound} - walk.declared)
    reads: list[str] = []
    binds: list[str] = []
    for step in walk.steps:
        if step.act in _READS:
            reads.append(step.name)
        if step.act is Act.CHANGE or (step.act in _BINDS and step.name in walk.declared):
            binds.append(step.name)
        if step.later is not None:  # a nested function
            reads += step.later.reads
            binds += step.later.binds
    outer_binds = tuple(name for name in dict.fromkeys(binds) if name not in own)
    return FunctionNames(
        tuple(name for name in dict.fromkeys(reads) if name not in own and (name not in BUILTINS or name in binds)),
        outer_binds,
        _changed_places(places, walk.steps),
    )


def _changed_places(parameters: Sequence[str], steps: Iterable[NameStep]) -> frozenset[int]:
    """Return the indices of parameters changed in place. A rebound parameter no longer counts."""
    given = {name: place for place, name in enumerate(parameters)}
    changed: set[int] = set()
    for step in steps:
        if step.act in (Act.BIND, Act.ALIAS):
            given.pop(step.name, None)
            if step.act is Act.ALIAS and step.others[0] in given:
                given[step.name] = given[step.others[0]]
        elif step.act is Act.CHANGE and step.name in given:
            changed.add(given[step.name])
    return frozenset(changed)


_STATEMENTS: Final[dict[type[ast.stmt], Callable[..., None]]] = {
    ast.Expr: StatementWalk.expression_statement,
    ast.Assign: StatementWalk.assign,
    ast.AnnAssign: StatementWalk.annotated,
    ast.AugAssign: StatementWalk.augmented,
    ast.Delete: StatementWalk.delete,
    ast.For: StatementWalk.loop,
    ast.AsyncFor: StatementWalk.loop,
    ast.While: StatementWalk.while_loop,
    ast.If: StatementWalk.condition,
    ast.With: StatementWalk.with_block,
    ast.AsyncWith: StatementWalk.with_block,
    ast.Try: StatementWalk.try_block,
    ast.TryStar: StatementWalk.try_block,
    ast.Match: StatementWalk.match_statement,
    ast.Import: StatementWalk.import_modules,
    ast.ImportFrom: StatementWalk.import_names,
    ast.FunctionDef: StatementWalk.function,
    ast.AsyncFunctionDef: StatementWalk.function,
    ast.ClassDef: StatementWalk.class_definition,
    ast.Global: StatementWalk.outer_names,
    ast.Nonlocal: StatementWalk.outer_names,
    ast.Return: StatementWalk.parts,
    ast.Assert: StatementWalk.parts,
    ast.Raise: StatementWalk.parts,
    **{getattr(ast, kind): _bind_type_alias for kind in ("TypeAlias",) if hasattr(ast, kind)},  # Python 3.12
}
