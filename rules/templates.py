"""Labels and annotations of alerts as Go templates, the subset that Prometheus' rule files use.

What is wrong in the text is found when it is compiled. Rendering never raises: what fails over this data stands in the
result, as Prometheus writes it. Values are data: nothing in them is expanded, and size and loops are bounded.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

from healer.errors import HealerError
from healer.rules import go_format, template_syntax
from healer.rules.template_functions import FUNCTIONS, MAX_OUTPUT, Failure, Query, Sample, is_true, text
from healer.rules.template_syntax import Branch, Dot, Function, Jump, Literal, Nested, Part, Pipe, Print, Variable
from healer.rules.template_tokens import TemplateError

__all__ = ["Query", "Template", "TemplateError", "compile_template"]

MAX_STEPS: Final = 20_000
_OWN: Final = frozenset({"and", "or", "query", "externalURL", "pathPrefix"})
_FUNCTIONS: Final = _OWN | FUNCTIONS.keys()
_VARIABLES: Final = frozenset({"$", "$labels", "$value", "$externalLabels", "$externalURL"})
_NO_LABELS: Final[Mapping[str, str]] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A compiled template. Two with the same text are equal."""

    text: str
    parts: tuple[Part, ...] = dataclasses.field(compare=False, repr=False)

    @property
    def is_fixed(self) -> bool:
        """Whether it renders to the same text whatever the data."""
        return all(isinstance(part, str) for part in self.parts)

    def render(
        self,
        labels: Mapping[str, str],
        value: float,
        external_labels: Mapping[str, str] = _NO_LABELS,
        external_url: str = "",
        query: Query | None = None,
    ) -> str:
        """The text for one alert; `<error expanding template: …>` where that cannot be made. Never raises for data."""
        if self.is_fixed:
            return "".join(part for part in self.parts if isinstance(part, str))
        data = {"Labels": labels, "Value": value, "ExternalLabels": external_labels, "ExternalURL": external_url}
        try:
            return _Run(data, query).render(self.parts)
        except (Failure, HealerError, ArithmeticError, ValueError, TypeError, LookupError, RecursionError) as error:
            return f"<error expanding template: {str(error)[:500]}>"


@functools.lru_cache(maxsize=1024)
def compile_template(source: str) -> Template:
    """`source` compiled. Raises TemplateError with the place of the mistake."""
    if "{{" not in source:
        return Template(source, (source,))
    return Template(source, template_syntax.parse(source, _FUNCTIONS, _VARIABLES))


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


_MISSING: Final = object()


class _Run:
    """One rendering."""

    def __init__(self, data: Mapping[str, object], query: Query | None) -> None:
        self._data = data
        self._query = query
        self._output: list[str] = []
        self._size = 0
        self._steps = 0
        self._variables: list[tuple[str, object]] = [
            ("$", data),
            ("$labels", data["Labels"]),
            ("$value", data["Value"]),
            ("$externalLabels", data["ExternalLabels"]),
            ("$externalURL", data["ExternalURL"]),
        ]

    def render(self, parts: Sequence[Part]) -> str:
        self._parts(parts, self._data)
        return "".join(self._output)

    def _parts(self, parts: Sequence[Part], dot: object) -> None:
        for part in parts:
            self._step()
            match part:
                case str():
                    self._write(part)
                case Print():
                    value = self._pipe(part.pipe, dot)
                    if not part.pipe.declares:
                        self._write("<no value>" if value is None else go_format.text_of(_plain(value)))
                case Jump():
                    raise _Break if part.keyword == "break" else _Continue
                case Branch():
                    outer = len(self._variables)
                    self._branch(part, dot)
                    del self._variables[outer:]

    def _branch(self, branch: Branch, dot: object) -> None:
        if branch.keyword == "range":
            self._range(branch, dot)
            return
        value = self._pipe(branch.pipe, dot)
        inner = value if branch.keyword == "with" else dot
        if is_true(value):
            self._parts(branch.body, inner)
        else:
            self._parts(branch.otherwise, dot)

    def _range(self, branch: Branch, dot: object) -> None:
        value = self._value(branch.pipe, dot)
        rows: list[tuple[object, object]]
        if isinstance(value, Mapping):
            rows = sorted(value.items())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            rows = list(enumerate(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            rows = [(count, count) for count in range(min(value, MAX_STEPS + 1))]
        elif value is None:
            rows = []
        else:
            raise Failure(f"range can't iterate over {go_format.text_of(value)[:80]}")
        if not rows:
            self._parts(branch.otherwise, dot)
        outer = len(self._variables)
        for key, row in rows:
            self._step()
            self._declare_row(branch.pipe, key, row)
            try:
                self._parts(branch.body, row)
            except _Break:
                break
            except _Continue:
                continue
            finally:
                del self._variables[outer:]

    def _declare_row(self, pipe: Pipe, key: object, row: object) -> None:
        values = (row,) if len(pipe.declares) == 1 else (key, row)
        for name, value in zip(pipe.declares, values, strict=False):
            self._set(name, value, assigns=pipe.assigns)

    def _pipe(self, pipe: Pipe, dot: object) -> object:
        value = self._value(pipe, dot)
        for name in pipe.declares:
            self._set(name, value, assigns=pipe.assigns)
        return value

    def _value(self, pipe: Pipe, dot: object) -> object:
        value: object = _MISSING
        for command in pipe.commands:
            self._step()
            head = command[0]
            if isinstance(head, Function):
                value = self._call(head.name, command[1:], value, dot)
            else:
                value = self._operand(head, dot)
        return value

    def _operand(self, operand: template_syntax.Operand, dot: object) -> object:
        match operand:
            case Literal():
                return operand.value
            case Dot():
                return _field(dot, operand.fields)
            case Variable():
                return _field(self._lookup(operand.name), operand.fields)
            case Nested():
                return _field(self._value(operand.pipe, dot), operand.fields)
            case Function():
                return self._call(operand.name, (), _MISSING, dot)

    def _call(self, name: str, operands: Sequence[template_syntax.Operand], last: object, dot: object) -> object:
        if name in ("and", "or"):
            return self._logic(name, operands, last, dot)
        values = [self._operand(operand, dot) for operand in operands]
        if last is not _MISSING:
            values.append(last)
        if name == "query":
            return self._ask(values)
        if name in ("externalURL", "pathPrefix"):
            url = str(self._data["ExternalURL"])
            return url if name == "externalURL" else urllib.parse.urlsplit(url).path
        function = FUNCTIONS[name]
        try:
            result = function(*values)
        except TypeError as error:
            if _takes(name, len(values)):
                raise
            raise Failure(f"wrong number of args for {name}: got {len(values)}") from error
        except Failure as error:
            raise Failure(f"error calling {name}: {error}") from error
        if isinstance(result, str) and len(result) > MAX_OUTPUT:
            raise Failure(f"result of {name} is longer than {MAX_OUTPUT} characters")
        return result

    def _logic(self, name: str, operands: Sequence[template_syntax.Operand], last: object, dot: object) -> object:
        value: object = _MISSING
        for operand in operands:
            value = self._operand(operand, dot)
            if is_true(value) == (name == "or"):
                return value
        value = value if last is _MISSING else last
        if value is _MISSING:
            raise Failure(f"wrong number of args for {name}: want at least 1 got 0")
        return value

    def _ask(self, values: Sequence[object]) -> list[Sample]:
        if len(values) != 1:
            raise Failure(f"wrong number of args for query: want 1 got {len(values)}")
        if self._query is None:
            raise Failure("error calling query: queries are not available here")
        rows = [Sample(dict(labels), value) for labels, value in self._query(text(values[0]))]
        return rows[:MAX_STEPS]

    def _lookup(self, name: str) -> object:
        return next(value for known, value in reversed(self._variables) if known == name)

    def _set(self, name: str, value: object, *, assigns: bool) -> None:
        if assigns:
            at = max(index for index, (known, _) in enumerate(self._variables) if known == name)
            self._variables[at] = (name, value)
        else:
            self._variables.append((name, value))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Failure(f"more than {MAX_STEPS} steps")

    def _write(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > MAX_OUTPUT:
            raise Failure(f"output longer than {MAX_OUTPUT} characters")
        self._output.append(piece)


def _takes(name: str, count: int) -> bool:
    try:
        inspect.signature(FUNCTIONS[name]).bind(*range(count))
    except TypeError:
        return False
    return True


def _plain(value: object) -> object:
    return (
        f"{{{go_format.text_of(value.labels)} {go_format.text_of(value.value)}}}"
        if isinstance(value, Sample)
        else value
    )


def _field(value: object, fields: Sequence[str]) -> object:
    for name in fields:
        if isinstance(value, Sample):
            value = {"Labels": value.labels, "Value": value.value}
            if name not in value:
                raise Failure(f"can't evaluate field {name} in type *template.sample")
        if not isinstance(value, Mapping):
            raise Failure(f"can't evaluate field {name} in type {go_format.type_name(value)}")
        if "ExternalURL" in value and "Labels" in value and name not in value:
            raise Failure(f"can't evaluate field {name} in type template.AlertTemplateData")
        value = value.get(name, "")
    return value
