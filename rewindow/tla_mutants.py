"""Small changes of a TLA+ specification, made by rule.

`mutants_of` reads a module, parses the definitions that the next-state relation uses, and returns the whole text of the
module for each change. It knows the part of TLA+ in which actions are written, and raises ModuleUnreadable for anything
else, because a change in the wrong place would be meaningless.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class ModuleUnreadable(Exception):
    """A definition is not written in the part of TLA+ that this file knows."""


# Tokens


@dataclass(frozen=True)
class Token:
    """A word of a module, with its place: start and end in characters, line and column from 0."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int


_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<rule>-{4,}|={4,})
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator> /\\ | \\/ | <=> | => | == | =< | <= | >= | /= | ~> | \|-> | -> | <- | :> | @@ | \.\. | <<
        | >>_\w* | >> | \[\]\[ | \[\] | <> | \]_ | \\[A-Za-z]+ | \\ | [=\#<>~+\-*/%^'.,:!@(){}\[\]|&] )""",
    re.VERBOSE,
)


def without_comments(text: str) -> str:
    """The text with a space for each character of a comment, so that positions stay the same."""
    found, depth, at = list(text), 0, 0
    while at < len(text):
        if depth == 0 and text[at] == '"':
            closed = re.compile(r'"(?:[^"\\\n]|\\.)*"').match(text, at)
            at = closed.end() if closed else at + 1
            continue
        if depth == 0 and text.startswith("\\*", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            found[at:end] = " " * (end - at)
            at = end
            continue
        if text.startswith("(*", at):
            depth += 1
            found[at : at + 2] = "  "
            at += 2
            continue
        if depth and text.startswith("*)", at):
            depth -= 1
            found[at : at + 2] = "  "
            at += 2
            continue
        if depth and text[at] != "\n":
            found[at] = " "
        at += 1
    return "".join(found)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a module. ModuleUnreadable names the position of a character that begins no token."""
    bare = without_comments(text)
    tokens, at, line, line_start = [], 0, 0, 0
    while at < len(bare):
        found = _TOKEN.match(bare, at)
        if not found:
            raise ModuleUnreadable(f"line {line + 1}: {bare[at : at + 20]!r} begins no TLA+ word")
        kind = str(found.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, found[0], at, found.end(), line, at - line_start))
        newlines = found[0].count("\n")
        if newlines:
            line += newlines
            line_start = at + found[0].rindex("\n") + 1
        at = found.end()
    return tokens


# Expressions


@dataclass
class Node:
    """An expression. text: its operator, name or literal; start and end: its characters, parentheses included.

    kind: name, number, string, call, index, field, prime, prefix, infix, list (bullets), if, case, let, quantifier,
    choose, set, filter, map, tuple, record, fields, functions, function, except, parentheses, action.
    names: what it binds, each with its set. at: where its operator stands.
    """

    kind: str
    text: str
    start: int
    end: int
    children: list[Node] = field(default_factory=list)
    names: list[tuple[str, Node]] = field(default_factory=list)
    at: tuple[int, int] = (0, 0)
    locals: list[Definition] = field(default_factory=list)


@dataclass
class Definition:
    """`name(parameters) == body`. names: those of a function's definition, each with its set."""

    name: str
    parameters: list[str]
    names: list[tuple[str, Node]]
    body: Node
    start: int


_PRECEDENCE = {
    **{"=>": 1, "<=>": 2, "~>": 2, "\\/": 3, "/\\": 3},
    **dict.fromkeys(("=", "#", "/=", "<", ">", "<=", "=<", ">=", "\\in", "\\notin", "\\subseteq"), 5),
    **{"@@": 6, ":>": 7, "\\": 8, "\\cup": 8, "\\cap": 8, "\\union": 8, "\\intersect": 8, "..": 9},
    **{"+": 10, "-": 11, "%": 11, "\\X": 11, "*": 13, "/": 13, "\\div": 13, "\\o": 13, "^": 14},
}
_PREFIX = {"~": 4, "\\lnot": 4, "-": 12, "SUBSET": 8, "UNION": 8, "DOMAIN": 9, "ENABLED": 15, "UNCHANGED": 4}
_RESERVED = {"IF", "THEN", "ELSE", "CASE", "OTHER", "LET", "IN", "CHOOSE", "EXCEPT", "LAMBDA", *_PREFIX}


class _Parser:
    """Expressions by precedence; a bullet list ends where a word stands at its column or left of it."""

    def __init__(self, tokens: Sequence[Token], last: int) -> None:
        self.tokens, self.at, self.last = tokens, 0, last
        self.fences = [-1]

    def peek(self, ahead: int = 0) -> str:
        token = self.token(ahead)
        return token.text if token else ""

    def token(self, ahead: int = 0) -> Token | None:
        if self.at + ahead >= self.last:
            return None
        token = self.tokens[self.at + ahead]
        return token if token.column > self.fences[-1] else None

    def take(self, wanted: str = "") -> Token:
        token = self.token()
        if token is None or (wanted and token.text != wanted):
            place = self.tokens[min(self.at, len(self.tokens) - 1)]
            found = token.text if token else "the end"
            raise ModuleUnreadable(f"line {place.line + 1}: {wanted or 'an expression'} expected, found {found}")
        self.at += 1
        return token

    def expression(self, least: int = 0) -> Node:
        left = self.prefix()
        while True:
            left = self.postfix(left)
            operator = self.peek()
            binds = _PRECEDENCE.get(operator)
            if binds is None or binds < max(least, 1):
                return left
            token = self.take()
            # `a - b - c` and `/\ a /\ b` group to the left.
            right = self.expression(binds + 1)
            left = Node("infix", operator, left.start, right.end, [left, right], at=(token.start, token.end))

    def prefix(self) -> Node:
        token = self.token()
        if token is None:
            self.take()
            raise AssertionError
        text = token.text
        if text in ("/\\", "\\/"):
            return self.bullets(text)
        if text in _PREFIX:
            self.take()
            inner = self.expression(_PREFIX[text])
            return Node("prefix", text, token.start, inner.end, [inner], at=(token.start, token.end))
        return self.primary()

    def bullets(self, bullet: str) -> Node:
        first = self.token()
        assert first is not None
        items: list[Node] = []
        while True:
            token = self.token()
            # A bullet of the same list begins a line, at the same column; any other is an operator between values.
            begins_line = token is not None and (not items or token.line > self.tokens[self.at - 1].line)
            if token is None or not begins_line or token.text != bullet or token.column != first.column:
                return Node("list", bullet, first.start, items[-1].end, items, at=(first.start, first.end))
            self.take()
            self.fences.append(first.column)
            items.append(self.expression())
            self.fences.pop()

    def bounds(self) -> list[tuple[str, Node]]:
        """`x, y \\in S, z \\in T`: each name with its set."""
        bound: list[tuple[str, Node]] = []
        while True:
            names = []
            while True:
                if self.peek() == "<<":
                    self.take()
                    while self.peek() != ">>":
                        names.append(self.take().text)
                        if self.peek() == ",":
                            self.take()
                    self.take(">>")
                else:
                    names.append(self.take().text)
                if self.peek() != ",":
                    break
                self.take()
            self.take("\\in")
            of = self.expression(6)
            bound += [(name, of) for name in names]
            if self.peek() != ",":
                return bound
            self.take()

    def items(self, end: str) -> list[Node]:
        found: list[Node] = []
        while self.peek() != end:
            found.append(self.expression())
            if self.peek() != end:
                self.take(",")
        return found

    def primary(self) -> Node:
        token = self.take()
        text, kind = token.text, token.kind
        if kind in ("number", "string"):
            return Node(kind, text, token.start, token.end)
        if text == "(":
            inner = self.expression()
            end = self.take(")").end
            return Node("parentheses", "", token.start, end, [inner])
        if text == "{":
            return self.braces(token)
        if text == "<<":
            found = self.items(">>")
            return Node("tuple", "", token.start, self.take(">>").end, found)
        if text == "[":
            return self.brackets(token)
        if text in ("\\A", "\\E"):
            names = self.bounds()
            self.take(":")
            body = self.expression()
            return Node("quantifier", text, token.start, body.end, [body], names, (token.start, token.end))
        if text == "CHOOSE":
            names = self.bounds()
            self.take(":")
            body = self.expression()
            return Node("choose", "", token.start, body.end, [body], names)
        if text == "IF":
            parts = [self.expression()]
            self.take("THEN")
            parts.append(self.expression())
            self.take("ELSE")
            parts.append(self.expression())
            return Node("if", "", token.start, parts[-1].end, parts)
        if text == "CASE":
            return self.arms(token)
        if text == "LET":
            inner_definitions = []
            while self.peek() != "IN":
                inner_definitions.append(self.definition())
            self.take("IN")
            body = self.expression()
            return Node("let", "", token.start, body.end, [body], locals=inner_definitions)
        if text == "@" or (kind == "name" and text not in _RESERVED):
            if self.peek() == "(" and text != "@":
                self.take("(")
                arguments = self.items(")")
                return Node("call", text, token.start, self.take(")").end, arguments, at=(token.start, token.end))
            return Node("name", text, token.start, token.end)
        raise ModuleUnreadable(f"line {token.line + 1}: {text} is not known here")

    def arms(self, token: Token) -> Node:
        """CASE: conditions and values in turn; OTHER is the name OTHER."""
        parts: list[Node] = []
        while True:
            if self.peek() == "OTHER":
                other = self.take()
                parts.append(Node("name", "OTHER", other.start, other.end))
            else:
                parts.append(self.expression())
            self.take("->")
            parts.append(self.expression())
            if self.peek() != "[]":
                return Node("case", "", token.start, parts[-1].end, parts)
            self.take()

    def braces(self, token: Token) -> Node:
        if self.peek() == "}":
            return Node("set", "", token.start, self.take().end)
        first = self.expression()
        if self.peek() != ":":
            found = [first]
            while self.peek() == ",":
                self.take()
                found.append(self.expression())
            return Node("set", "", token.start, self.take("}").end, found)
        self.take(":")
        if first.kind == "infix" and first.text == "\\in" and first.children[0].kind in ("name", "tuple"):
            bound, of = first.children
            named = [bound.text] if bound.kind == "name" else [child.text for child in bound.children]
            condition = self.expression()
            names = [(name, of) for name in named]
            return Node("filter", "", token.start, self.take("}").end, [condition], names)
        names = self.bounds()
        return Node("map", "", token.start, self.take("}").end, [first], names)

    def brackets(self, token: Token) -> Node:
        """A value that begins with `[`."""
        after = self.token(1)
        if after is not None and after.text in ("|->", ":"):
            parts = []
            while True:
                self.take()
                separator = self.take().text
                parts.append(self.expression())
                if self.peek() != ",":
                    break
                self.take()
            return Node("record" if separator == "|->" else "fields", "", token.start, self.take("]").end, parts)
        at = self.at
        try:
            names = self.bounds()
            is_function = self.peek() == "|->"
        except ModuleUnreadable:
            is_function = False
        if is_function:
            self.take()
            body = self.expression()
            return Node("function", "", token.start, self.take("]").end, [body], names)
        self.at = at
        first = self.expression()
        if self.peek() == "->":
            self.take()
            values = self.expression()
            return Node("functions", "", token.start, self.take("]").end, [first, values])
        if self.peek() == "EXCEPT":
            self.take()
            parts = [first]
            while True:
                self.take("!")
                path: list[Node] = []
                while self.peek() in ("[", "."):
                    if self.take().text == ".":
                        self.take()
                    else:
                        path += self.items("]")
                        self.take("]")
                self.take("=")
                value = self.expression()
                parts.append(Node("update", "", path[0].start if path else value.start, value.end, [*path, value]))
                if self.peek() != ",":
                    break
                self.take()
            return Node("except", "", token.start, self.take("]").end, parts)
        raise ModuleUnreadable(f"line {token.line + 1}: [ begins nothing that is known here")

    def postfix(self, left: Node) -> Node:
        while True:
            text = self.peek()
            if text == "'":
                token = self.take()
                left = Node("prime", "", left.start, token.end, [left], at=(token.start, token.end))
            elif text == ".":
                self.take()
                name = self.take()
                left = Node("field", name.text, left.start, name.end, [left])
            elif text == "[":
                self.take()
                arguments = self.items("]")
                left = Node("index", "", left.start, self.take("]").end, [left, *arguments])
            else:
                return left

    def definition(self) -> Definition:
        name = self.take()
        if name.kind != "name":
            raise ModuleUnreadable(f"line {name.line + 1}: a definition expected, found {name.text}")
        parameters: list[str] = []
        names: list[tuple[str, Node]] = []
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                parameters.append(self.take().text)
                if self.peek() != ")":
                    self.take(",")
            self.take(")")
        elif self.peek() == "[":
            self.take()
            names = self.bounds()
            self.take("]")
        self.take("==")
        return Definition(name.text, parameters, names, self.expression(), name.start)


def definitions_of(text: str, roots: Sequence[str]) -> dict[str, Definition]:
    """The definitions that the roots use, roots included, in the module's order.

    Only these are parsed: properties and fairness may use all of TLA+. ModuleUnreadable when a root is not defined.
    """
    tokens = tokens_of(text)
    heads: dict[str, tuple[int, int]] = {}
    tops = [i for i, t in enumerate(tokens) if t.column == 0] + [len(tokens)]
    for here, following in itertools.pairwise(tops):
        at = here + 1
        if at < len(tokens) and tokens[at].text in ("(", "["):
            while at < following and tokens[at].text not in (")", "]"):
                at += 1
            at += 1
        if tokens[here].kind == "name" and at < following and tokens[at].text == "==":
            heads[tokens[here].text] = (here, following)
    found: dict[str, Definition] = {}
    wanted = list(roots)
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        if name not in heads:
            raise ModuleUnreadable(f"{name} is not defined")
        parser = _Parser(tokens, heads[name][1])
        parser.at = heads[name][0]
        definition = parser.definition()
        if parser.at != heads[name][1]:
            raise ModuleUnreadable(f"line {tokens[parser.at].line + 1}: {tokens[parser.at].text} is left over")
        found[name] = definition
        wanted += [n.text for n in walk(definition.body) if n.kind in ("name", "call") and n.text in heads]
        wanted += [n.text for _, of in definition.names for n in walk(of) if n.text in heads]
    return dict(sorted(found.items(), key=lambda item: item[1].start))


def parts_of(node: Node) -> Iterator[Node]:
    """All nodes directly below one, in no order: values, bounds, and local definitions."""
    yield from node.children
    seen: list[Node] = []
    for _, of in node.names:
        if not any(of is s for s in seen):
            seen.append(of)
            yield of
    for definition in node.locals:
        yield from (of for _, of in definition.names)
        yield definition.body


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in parts_of(node):
        yield from walk(part)


# Changes


@dataclass(frozen=True)
class Mutant:
    """One change. key: the definition, the rule and the line, with what was changed in braces; text: the module.

    end: where in that text the changed definition ends, in characters.
    """

    definition: str
    rule: str
    key: str
    line: int
    text: str
    end: int


@dataclass
class Rules:
    """The facts about a specification that the rules need.

    types: a set that variables range over -> the names that its members have in the module's definitions.
    given: definitions that are not changed. judges: of each configuration, its constants as Python values (int, bool,
    str, frozenset of str) where they have one; a part that no judge can reach is not changed either.
    """

    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    given: Sequence[str] = ()
    judges: Sequence[Mapping[str, Any]] = ({},)


CONJUNCT, DISJUNCT, COMPARISON, NUMBER, PRIME, SWAP = (
    "conjunct dropped",
    "disjunct dropped",
    "comparison changed",
    "one more or less",
    "prime dropped",
    "members swapped",
)
TRUTH, NEGATION, QUANTIFIER, OPERAND = (
    "truth value changed",
    "negation dropped",
    "quantifier changed",
    "set operand dropped",
)

_CHANGED = {
    **{"=": ("#",), "#": ("=",), "/=": ("=",), "\\in": ("\\notin",), "\\notin": ("\\in",)},
    **{"<": ("<=", ">"), "<=": ("<", ">="), "=<": ("<", ">="), ">": (">=", "<"), ">=": (">", "<=")},
}
"""The negation; of an order, one that differs only where both sides are equal, and the other direction."""
SHOWN_MAX = 70
"""How many characters of a removed part are shown."""
_ARITHMETIC = ("+", "-", "*", "\\div", "%")


def _bare(node: Node) -> Node:
    while node.kind == "parentheses":
        node = node.children[0]
    return node


def _assigned(node: Node) -> str | None:
    """The variable that `x' = e` or `x' \\in S` gives its next value."""
    if node.kind == "infix" and node.text in ("=", "\\in") and node.children[0].kind == "prime":
        variable = node.children[0].children[0]
        return variable.text if variable.kind == "name" else None
    return None


class _Changes:
    def __init__(self, text: str, roots: Sequence[str], rules: Rules) -> None:
        self.text, self.rules, self.roots = text, rules, roots
        self.bare = without_comments(text)
        self.definitions = definitions_of(text, roots)
        self.types = {name: of for of, names in rules.types.items() for name in names}
        self.found: list[tuple[int, int, str, str, str]] = []
        self.within = ""
        self.parameters: list[str] = []
        self._assigns: dict[str, frozenset[str]] = {}

    # The variables to which an expression gives next values.

    def assigns(self, node: Node) -> frozenset[str]:
        variable = _assigned(node)
        if variable:
            return frozenset([variable])
        if node.kind == "prefix" and node.text == "UNCHANGED":
            return self.variables(node.children[0])
        if node.kind == "prefix" and node.text == "ENABLED":
            return frozenset()
        found: frozenset[str] = frozenset()
        if node.kind in ("call", "name") and node.text in self.definitions:
            found |= self.assigns_by(node.text)
        for part in parts_of(node):
            found |= self.assigns(part)
        return found

    def assigns_by(self, name: str) -> frozenset[str]:
        if name not in self._assigns:
            self._assigns[name] = frozenset()  # a recursive operator is none that gives next values
            self._assigns[name] = self.assigns(self.definitions[name].body)
        return self._assigns[name]

    def variables(self, node: Node) -> frozenset[str]:
        node = _bare(node)
        if node.kind == "tuple":
            return frozenset().union(*(self.variables(c) for c in node.children)) if node.children else frozenset()
        if node.kind == "name" and node.text in self.definitions:
            return self.variables(self.definitions[node.text].body)
        return frozenset([node.text])

    # Parts that no judge reaches.

    def value(self, node: Node, constants: Mapping[str, Any], depth: int = 0) -> Any:
        """The value of an expression of constants; None where it depends on the state or on an unknown operator."""
        if depth > 20:
            return None
        node = _bare(node)

        def of(n: Node) -> Any:
            return self.value(n, constants, depth + 1)

        if node.kind == "string":
            return node.text[1:-1]
        if node.kind == "number":
            return int(node.text)
        if node.kind == "name":
            if node.text in ("TRUE", "FALSE"):
                return node.text == "TRUE"
            if node.text in constants:
                return constants[node.text]
            definition = self.definitions.get(node.text)
            return of(definition.body) if definition and not definition.names else None
        if node.kind == "set":
            members = [of(c) for c in node.children]
            return frozenset(members) if all(isinstance(m, str) for m in members) else None
        if node.kind == "prefix" and node.text == "~":
            inner = of(node.children[0])
            return not inner if isinstance(inner, bool) else None
        if node.kind == "if":
            condition = of(node.children[0])
            return of(node.children[1 if condition else 2]) if isinstance(condition, bool) else None
        if node.kind in ("infix", "list") and node.text in ("/\\", "\\/"):
            values = [of(c) for c in node.children]
            ends = node.text == "\\/"
            if ends in [v for v in values if isinstance(v, bool)]:
                return ends
            return not ends if all(isinstance(v, bool) for v in values) else None
        if node.kind == "infix":
            left, right = (of(c) for c in node.children)
            if left is None or right is None:
                return None
            match node.text:
                case "=":
                    return bool(left == right)
                case "#" | "/=":
                    return bool(left != right)
                case "\\in" | "\\notin" if isinstance(right, frozenset):
                    return (left in right) == (node.text == "\\in")
                case "\\cap" if isinstance(left, frozenset) and isinstance(right, frozenset):
                    return left & right
                case _:
                    return None
        return None

    def is_left_side(self, node: Node) -> bool:
        """Whether a set operation equals its left side in each judge: the right side is empty, or both are known."""
        left, right = node.children
        for constants in self.rules.judges:
            whole, without = self.value(node, constants), self.value(left, constants)
            of_nothing = node.text in ("\\cup", "\\union", "\\") and self.value(right, constants) == frozenset()
            if not of_nothing and (whole is None or whole != without):
                return False
        return True

    def is_false(self, node: Node) -> bool:
        return all(self.value(node, constants) is False for constants in self.rules.judges)

    def is_true(self, node: Node) -> bool:
        return all(self.value(node, constants) is True for constants in self.rules.judges)

    def reached(self) -> list[str]:
        """Definitions that some judge evaluates, beginning with the roots."""
        found: list[str] = []
        wanted = list(self.roots)

        def look(node: Node) -> None:
            if node.kind in ("name", "call") and node.text in self.definitions:
                wanted.append(node.text)
            for part in self.live_parts(node):
                look(part)

        while wanted:
            name = wanted.pop()
            if name not in found:
                found.append(name)
                definition = self.definitions[name]
                for _, of in definition.names:
                    look(of)
                look(definition.body)
        return found

    def live_parts(self, node: Node) -> list[Node]:
        """The parts of an expression that some judge evaluates."""
        if node.kind == "if":
            condition, yes, no = node.children
            return [condition, *([] if self.is_false(condition) else [yes]), *([] if self.is_true(condition) else [no])]
        if node.kind in ("infix", "list") and node.text in ("/\\", "\\/"):
            decides = self.is_false if node.text == "/\\" else self.is_true
            deciding = [child for child in node.children if decides(child)]
            # If one part alone decides, a change of another has no effect; if two do, no single change has one.
            return node.children if not deciding else deciding if len(deciding) == 1 else []
        if node.kind == "infix" and node.text == "=>" and self.is_false(node.children[0]):
            return [node.children[0]]
        return list(parts_of(node))

    # Rules.

    def change(self, start: int, end: int, replacement: str, rule: str) -> None:
        self.found.append((start, end, replacement, rule, self.within))

    def all(self) -> Iterator[Mutant]:
        reached = self.reached()
        for name, definition in self.definitions.items():
            is_name_of_value = definition.body.kind in ("number", "string") and not definition.parameters
            of_variables = definition.body.kind == "tuple" and not definition.parameters
            if (
                name in self.roots
                or name in self.rules.given
                or name not in reached
                or is_name_of_value
                or of_variables
            ):
                continue
            self.within, self.parameters = name, definition.parameters
            self.visit_definition(definition, [])
        taken: dict[str, int] = {}
        seen: set[str] = {self.text}
        for start, end, replacement, rule, within in sorted(self.found):
            text = self.text[:start] + replacement + self.text[end:]
            if text in seen:
                continue
            seen.add(text)
            key = f"{within}: {rule}: {self.shown(start, end, replacement)}"
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > 1:
                key += f" ({taken[key]})"
            ends = self.definitions[within].body.end + len(text) - len(self.text)
            yield Mutant(within, rule, key, self.text.count("\n", 0, start) + 1, text, ends)

    def shown(self, start: int, end: int, replacement: str) -> str:
        """The lines of a change, with `{what was -> what is}` in its place."""
        head = self.bare.rfind("\n", 0, start) + 1
        tail = self.bare.find("\n", end)
        new = re.sub(r"\(CHOOSE other__ [^)]*\)", "another", replacement)
        parts = (self.bare[head:start], self.bare[start:end], new, self.bare[end:tail])
        before, old, new, after = (re.sub(r"\s+", " ", p) for p in parts)
        old = old.strip() if len(old) <= SHOWN_MAX else f"{old.strip()[:SHOWN_MAX]}..."
        return f"{before.lstrip()}{{{old} -> {new.strip()}}}{after.rstrip()}"

    def visit_definition(self, definition: Definition, scope: list[str]) -> None:
        """scope: the names that are bound around it."""
        for _, of in definition.names:
            self.visit(of, scope)
        self.visit(definition.body, [*scope, *definition.parameters, *(name for name, _ in definition.names)])

    def visit(self, node: Node, scope: list[str], is_selector: bool = False, in_sum: bool = False) -> None:
        """is_selector: it names a field of a tuple; in_sum: it is part of a larger arithmetic expression."""
        self.rules_for(node, scope, is_selector, in_sum)
        inner = [*scope, *(name for name, _ in node.names), *(d.name for d in node.locals)]
        bounds = [part for part in parts_of(node) if any(part is of for _, of in node.names)]
        for of in bounds:
            self.visit(of, scope)
        for definition in node.locals:
            self.visit_definition(definition, inner)
        live = self.live_parts(node)
        is_arithmetic = node.kind == "infix" and node.text in _ARITHMETIC
        for place, child in enumerate(node.children):
            if not any(child is part for part in live) or (node.kind == "prime" and child.kind == "name"):
                continue
            # `f[3]` and `![3]` select a field of a tuple; in `![s] = 3` the last part is the value.
            selects = (node.kind == "index" and place > 0) or (node.kind == "update" and place < len(node.children) - 1)
            self.visit(
                child,
                inner,
                is_selector=selects and child.kind in ("number", "string"),
                in_sum=is_arithmetic or (in_sum and node.kind == "parentheses"),
            )

    def rules_for(self, node: Node, scope: list[str], is_selector: bool, in_sum: bool) -> None:
        text, assigned = node.text, _assigned(node)
        if node.kind in ("infix", "list") and text in ("/\\", "\\/"):
            for child in self.live_parts(node):
                self.drop(child, text)
        if node.kind == "infix":
            if not assigned:
                for turned in _CHANGED.get(text, ()):
                    self.change(*node.at, turned, COMPARISON)
            if text in ("\\cup", "\\union", "\\cap", "\\intersect", "\\") and not self.is_left_side(node):
                self.change(node.children[0].end, node.end, "", OPERAND)
            if text in _ARITHMETIC and not in_sum and not any(self.is_number(t) for t in self.terms(node)):
                self.one_more_or_less(node)
        if node.kind == "number" and not is_selector:
            value = int(text)
            for other in (value + 1, value - 1):
                if other >= 0:
                    self.change(node.start, node.end, str(other), NUMBER)
        if node.kind == "name" and text not in scope and self.is_number(node):
            self.one_more_or_less(node)
        if node.kind == "name" and text in ("TRUE", "FALSE"):
            self.change(node.start, node.end, "FALSE" if text == "TRUE" else "TRUE", TRUTH)
        if node.kind == "prefix" and text in ("~", "\\lnot"):
            self.change(node.at[0], node.at[1], "", NEGATION)
        if node.kind == "quantifier" and not self.assigns(node.children[0]):
            self.change(*node.at, "\\E" if text == "\\A" else "\\A", QUANTIFIER)
        if node.kind == "name" and text in self.types and text in scope:
            self.swap(node, scope)
        for child in node.children:
            if child.kind == "prime" and not (assigned and child is node.children[0]):
                self.change(child.children[0].end, child.end, "", PRIME)

    def terms(self, node: Node) -> Iterator[Node]:
        """What is added and subtracted in a sum."""
        node = _bare(node)
        if node.kind == "infix" and node.text in ("+", "-"):
            for child in node.children:
                yield from self.terms(child)
        else:
            yield node

    def is_number(self, node: Node) -> bool:
        """A number, or a constant that is one in each judge."""
        if node.kind == "number":
            return True
        kinds = [constants.get(node.text) for constants in self.rules.judges]
        return node.kind == "name" and all(isinstance(k, int) and not isinstance(k, bool) for k in kinds)

    def one_more_or_less(self, node: Node) -> None:
        whole = self.text[node.start : node.end]
        whole = f"({whole})" if node.kind == "infix" else whole
        for sign in "+-":
            self.change(node.start, node.end, f"({whole} {sign} 1)", NUMBER)

    def drop(self, child: Node, operator: str) -> None:
        """A dropped conjunct that gives a next value becomes UNCHANGED: TLC takes no step without a next value."""
        bare = _bare(child)
        if bare.kind in ("infix", "list") and bare.text == operator:
            return  # its own parts are dropped, one at a time
        if operator == "\\/":
            if not self.is_false(child):
                self.change(child.start, child.end, "FALSE", DISJUNCT)
            return
        if self.is_true(child) or self.is_unchanged(bare):
            return
        variables = sorted(self.assigns(child))
        kept = f"UNCHANGED <<{', '.join(variables)}>>" if variables else "TRUE"
        self.change(child.start, child.end, kept, CONJUNCT)

    def is_unchanged(self, node: Node) -> bool:
        """`UNCHANGED x`, or `x' = x`."""
        if node.kind == "prefix" and node.text == "UNCHANGED":
            return True
        value = node.children[1] if node.kind == "infix" and node.text == "=" else None
        return value is not None and value.kind == "name" and _assigned(node) == value.text

    def swap(self, node: Node, scope: list[str]) -> None:
        """Another variable of the same type that is bound here; where a parameter is alone, another member."""
        of = self.types[node.text]
        others = [name for name in dict.fromkeys(scope) if name != node.text and self.types.get(name) == of]
        for other in others:
            self.change(node.start, node.end, other, SWAP)
        if not others and node.text in self.parameters:
            another = f"(CHOOSE other__ \\in {of} : other__ # {node.text})"
            self.change(node.start, node.end, another, SWAP)


def mutants_of(text: str, roots: Sequence[str] = ("Next",), rules: Rules | None = None) -> list[Mutant]:
    """Every small change of the definitions that the roots use; not of the roots, which only list them.

    Raises ModuleUnreadable.
    """
    return list(_Changes(text, roots, rules or Rules()).all())
