"""Probes in the unharmed code, by which one run says for each of many mutants whether its seed can find it.

The same seed is the same run. So a mutant's run is that of the unharmed code up to the first time that a changed expression
has another value, or a changed statement is come to. With a seed that never comes so far the mutant breaks nothing, and need
not be played. (Weak mutation: Howden, 1982; all mutants in one program: Untch, Offutt and Harrold, 1993.)
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

OF_ITS_FRAME = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
"""What cannot be moved into a function of its own."""

OF_ONE_VALUE = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp)
"""Parts of these may differ without a difference of the whole."""

_IMPORTS = ast.parse("from tests.faults import reached as reached_by").body

Node = ast.expr | ast.stmt


class ProbedModule(msgspec.Struct, frozen=True):
    """A module with probes.

    Attributes:
        text: Its source.
        everywhere: The mutants that differ in what the module is when it is imported, so that every run may be another.
    """

    text: str
    everywhere: Sequence[str]


def probed(unharmed: str, mutants: Mapping[str, str]) -> ProbedModule:
    """A module in which each mutant has its probes.

    Args:
        unharmed: The module's source.
        mutants: By name, the same module's source with the change.
    """
    tree = ast.parse(unharmed)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    probes = _Probes()
    everywhere = []
    for name, text in mutants.items():
        for ours, theirs in differences(tree, ast.parse(text)):
            if not _is_run(ours, parents):
                everywhere.append(name)
            elif isinstance(ours, ast.expr) and isinstance(theirs, ast.expr) and _is_movable(ours, theirs):
                probes.expressions[ours].append((name, theirs))
            elif _is_run(statement := _statement(ours, parents), parents):
                probes.statements[statement].append(name)
            else:
                everywhere.append(name)
    probes.visit(tree)
    tree.body[_behind_future(tree) : _behind_future(tree)] = _IMPORTS
    return ProbedModule(ast.unparse(ast.fix_missing_locations(tree)), tuple(dict.fromkeys(everywhere)))


def differences(ours: ast.AST, theirs: ast.AST) -> list[tuple[Node, Node | None]]:
    """The smallest expressions and statements that differ, each with what the other tree has there; None: another block."""
    found = list(_differences(ours, theirs))
    if all(isinstance(one, ast.expr | ast.stmt) for one, _ in found):
        return [(one, two) for one, two in found if isinstance(one, ast.expr | ast.stmt)]  # narrows the type
    raise AssertionError("a module differs in its statements")


def _differences(ours: ast.AST, theirs: ast.AST) -> Iterator[tuple[ast.AST, Node | None]]:
    found: list[tuple[ast.AST, Node | None]] = []
    is_same = type(ours) is type(theirs)
    for name, value in ast.iter_fields(ours) if is_same else ():
        other = getattr(theirs, name)
        if isinstance(value, list) and isinstance(other, list):
            if len(value) == len(other):
                for one, two in zip(value, other, strict=True):
                    found += _differences(one, two) if isinstance(one, ast.AST) else []
                    is_same &= isinstance(one, ast.AST) or one == two
            elif value and isinstance(value[0], ast.stmt):
                found.append((value[min(_same(value, other), len(value) - 1)], None))
            else:
                is_same = False
        elif isinstance(value, ast.AST) and isinstance(other, ast.AST):
            found += _differences(value, other)
        else:
            is_same &= value == other
    is_whole = isinstance(ours, OF_ONE_VALUE) and bool(found)
    if is_same and not is_whole and all(isinstance(one, ast.expr | ast.stmt) for one, _ in found):
        yield from found
    else:
        yield ours, theirs if isinstance(theirs, ast.expr | ast.stmt) else None


def _same(ours: Sequence[ast.AST], theirs: Sequence[ast.AST]) -> int:
    """How many statements two blocks have in common at their beginnings."""
    for count, (one, two) in enumerate(zip(ours, theirs, strict=False)):
        if ast.dump(one) != ast.dump(two):
            return count
    return min(len(ours), len(theirs))


def _is_run(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether it is in the body of a function, and not part of what an import runs."""
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node in parent.body:
            return True
        if isinstance(parent, ast.Lambda) and node is parent.body:
            return True
        node = parent
    return False


def _is_movable(*expressions: ast.expr) -> bool:
    return not any(
        isinstance(each, OF_ITS_FRAME) or isinstance(getattr(each, "ctx", None), ast.Store | ast.Del)
        for expression in expressions
        for each in ast.walk(expression)
    )


def _statement(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def _behind_future(tree: ast.Module) -> int:
    future = [at for at, one in enumerate(tree.body) if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    return future[-1] + 1 if future else int(ast.get_docstring(tree) is not None)


class _Probes(ast.NodeTransformer):
    """Puts the probes into a tree."""

    def __init__(self) -> None:
        self.expressions: dict[ast.expr, list[tuple[str, ast.expr]]] = defaultdict(list)
        self.statements: dict[ast.stmt, list[str]] = defaultdict(list)

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        """The node with its probes: around an expression, before a statement."""
        new = self.generic_visit(node)
        if isinstance(node, ast.expr):
            for name, mutated in self.expressions.get(node, ()):
                new = _call("differs", ast.Constant(name), new, ast.Lambda(_NO_ARGUMENTS, mutated))
        if isinstance(node, ast.stmt) and (names := self.statements.get(node)):
            return [*(ast.Expr(_call("passes", ast.Constant(name))) for name in names), new]
        return new


_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(function: str, *arguments: ast.AST) -> ast.Call:
    name = ast.Attribute(ast.Name("reached_by", ast.Load()), function, ast.Load())
    return ast.Call(name, [each for each in arguments if isinstance(each, ast.expr)], [])
