"""`absent` and `absent_over_time`: a sample where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from healer.model.matchers import MatchOp
from healer.model.series import METRIC_NAME, Labels
from healer.rules.promql import tree
from healer.rules.promql.calls import Site, vector, window
from healer.rules.promql.values import Bools, Value, Vector, some


def absent(site: Site, args: Sequence[Value]) -> Vector:
    return _where(site, ~some(vector(args[0]).present, axis=0))


def absent_over_time(site: Site, args: Sequence[Value]) -> Vector:
    return _where(site, ~some(window(args[0]).counts > 0, axis=0))


def _where(site: Site, missing: Bools) -> Vector:
    shape = (1, site.steps)
    labels = _labels(tree.bare(site.node.args[0]))
    return Vector(labels=(labels,), values=np.ones(shape), present=np.broadcast_to(missing, shape))


def _labels(expr: tree.Expr) -> Labels:
    """What the missing series would have had: labels that the selector fixes, each by a single matcher."""
    selector = expr.selector if isinstance(expr, tree.MatrixSelector) else expr
    if not isinstance(selector, tree.VectorSelector):
        return Labels()
    names = [matcher.name for matcher in selector.matchers]
    return Labels(
        (matcher.name, matcher.value)
        for matcher in selector.matchers
        if matcher.op is MatchOp.EQUAL and names.count(matcher.name) == 1 and matcher.name != METRIC_NAME
    )
