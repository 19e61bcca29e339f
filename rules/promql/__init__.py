"""PromQL: text to a checked tree, the plan of what it reads, and its value over samples fetched beforehand.

    expr = parse("sum by (job) (rate(errors_total[5m])) > 1")
    for select in selects(expr, start_ms=now, end_ms=now, step_ms=0): …fetch…
    result = instant(expr, fetched.__getitem__, at_ms=now)

Semantics are those of Prometheus 3 for float samples. Nothing here does I/O or asks for the time.
"""

from healer.rules.promql.engine import Fetch, evaluate, instant
from healer.rules.promql.errors import ParseError, position
from healer.rules.promql.parser import parse
from healer.rules.promql.printer import print_expr
from healer.rules.promql.select import LOOKBACK_MS, Select, metric_names, selects
from healer.rules.promql.tree import Expr, Kind
from healer.rules.promql.types import kind_of
from healer.rules.promql.values import Annotation, Level, Matrix, Result, Scalar, String, Vector

__all__ = [
    "LOOKBACK_MS",
    "Annotation",
    "Expr",
    "Fetch",
    "Kind",
    "Level",
    "Matrix",
    "ParseError",
    "Result",
    "Scalar",
    "Select",
    "String",
    "Vector",
    "evaluate",
    "instant",
    "kind_of",
    "metric_names",
    "parse",
    "position",
    "print_expr",
    "selects",
]
