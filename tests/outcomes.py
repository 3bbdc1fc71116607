"""Which outcomes the oracles' decisions had: a comparison that never reaches one side tests half of a formula.

`watch` has modules compiled so that each comparison, each condition and each choice of `min` and `max` is noted while
`recorded` is under way. `assert` is no decision.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

NOTE, CHOOSE = "_note_outcome", "_choose_outcome"


@dataclass(frozen=True)
class Decision:
    module: str
    function: str
    line: int
    column: int
    text: str
    outcomes: int
    """How many it can have."""


DECISIONS: list[Decision] = []
_seen: list[dict[int, set[int]]] = []


def note(number: int, value: Any) -> Any:
    for seen in _seen:
        seen.setdefault(number, set()).add(int(bool(value)))
    return value


def choose(number: int, choice: Any, *values: Any) -> Any:
    chosen = choice(values)
    for seen in _seen:
        seen.setdefault(number, set()).update(i for i, v in enumerate(values) if v == chosen)
    return chosen


@contextmanager
def recorded() -> Iterator[dict[int, set[int]]]:
    """The outcomes of each decision that is made meanwhile, by its place in DECISIONS."""
    seen: dict[int, set[int]] = {}
    _seen.append(seen)
    try:
        yield seen
    finally:
        _seen.remove(seen)


class _Watching(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self.module = module
        self.within: list[str] = []

    def enter(self, node: Any) -> ast.AST:
        self.within.append(node.name)
        self.generic_visit(node)
        self.within.pop()
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = visit_ClassDef = enter

    def number(self, node: ast.expr, outcomes: int) -> ast.Constant:
        text = ast.unparse(node)
        DECISIONS.append(Decision(self.module, ".".join(self.within), node.lineno, node.col_offset, text, outcomes))
        return ast.Constant(len(DECISIONS) - 1)

    def noted(self, node: ast.expr) -> ast.expr:
        number = self.number(node, 2)
        return ast.Call(ast.Name(NOTE, ast.Load()), [number, node], [])

    def condition(self, node: ast.expr) -> ast.expr:
        """What is decided is the leaves; a comparison among them is noted where it is visited."""
        if isinstance(node, ast.BoolOp):
            node.values = [self.condition(v) for v in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self.condition(node.operand)
            return node
        if isinstance(node, ast.Compare):
            return self.visit_Compare(node)
        return self.noted(self.visit(node))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        number = self.number(node, 2)
        self.generic_visit(node)
        return ast.Call(ast.Name(NOTE, ast.Load()), [number, node], [])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        choice = node.func
        among = [*node.args]
        if isinstance(choice, ast.Name) and choice.id in ("min", "max") and len(among) > 1 and not node.keywords:
            number = self.number(node, len(among))
            self.generic_visit(node)
            return ast.Call(ast.Name(CHOOSE, ast.Load()), [number, choice, *node.args], [])
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self.tested(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self.tested(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self.tested(node)

    def tested(self, node: Any) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node  # type: ignore[no-any-return]
        node.test = self.condition(node.test)
        for name, value in ast.iter_fields(node):
            if name == "test":
                continue
            if isinstance(value, list):
                setattr(node, name, [self.visit(v) for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node  # type: ignore[no-any-return]

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = self.visit(node.iter)
        node.ifs = [self.condition(test) for test in node.ifs]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew each time: no file of byte code has the notes."""
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        tree = _Watching(fullname).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[NOTE], module.__dict__[CHOOSE] = note, choose
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(self.package + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin)
        return spec


def watch(package: str) -> None:
    """Modules of the package that are imported from now on note their decisions."""
    sys.meta_path.insert(0, _Finder(package))


def missed(seen: dict[int, set[int]], owners: set[tuple[str, str]]) -> list[Decision]:
    """Decisions in the functions of these classes, each (module, class), that did not have every outcome."""
    return [
        d
        for number, d in enumerate(DECISIONS)
        if (d.module, d.function.split(".")[0]) in owners and len(seen.get(number, ())) < d.outcomes
    ]
