"""Prometheus rule files and PrometheusRule manifests: text in, groups out, with every mistake at its place.

Does not read files and does not stop at the first mistake: groups without one are returned even if others have some.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from healer.errors import Problem
from healer.rules import promql
from healer.rules.definitions import (
    DEFAULT_INTERVAL_SECONDS,
    AlertRule,
    Group,
    Position,
    RecordingRule,
    Rule,
)
from healer.rules.templates import compile_template
from healer.rules.yaml_fields import FieldReader, Fields, join
from healer.rules.yaml_positions import Mapping, Node, Scalar, YamlProblem, read_documents

__all__ = ["AlertRule", "Group", "Position", "RecordingRule", "Rule", "load_rules"]

_GROUP_KEYS: Final = ("name", "interval", "query_offset", "limit", "labels", "rules", "eager")
_MANIFEST_GROUP_KEYS: Final = (*_GROUP_KEYS, "partial_response_strategy")
_RULE_KEYS: Final = ("record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")
_LISTS: Final = frozenset({"List", "PrometheusRuleList"})


def load_rules(
    text: str, file: str, *, default_interval_seconds: float = DEFAULT_INTERVAL_SECONDS
) -> tuple[tuple[Group, ...], tuple[Problem, ...]]:
    """Groups of the rule file `text`, and everything that is wrong with it. `file` is its name, for the messages."""
    loader = _Loader(file, default_interval_seconds)
    try:
        documents = read_documents(text)
    except YamlProblem as error:
        return (), (Problem(file=file, line=error.line, column=error.column, path="", message=error.message),)
    groups = tuple(group for document in documents for group in loader.document(document, ""))
    return groups, tuple(sorted(loader.problems, key=lambda problem: (problem.line, problem.column)))


@dataclasses.dataclass(slots=True)
class _Scope:
    """What has been seen in one list of groups, to find what stands there twice."""

    manifest: str = ""
    group_keys: tuple[str, ...] = _GROUP_KEYS
    names: dict[str, int] = dataclasses.field(default_factory=dict)
    rules: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)


class _Loader(FieldReader):
    def __init__(self, file: str, default_interval_seconds: float) -> None:
        super().__init__(file)
        self._default_interval = default_interval_seconds
        self._manifests: dict[str, int] = {}

    # Documents

    def document(self, node: Node, path: str) -> Iterator[Group]:
        """Groups of one YAML document, or of one item of a list of manifests."""
        if isinstance(node, Scalar) and node.is_null:
            return
        if not isinstance(node, Mapping):
            self.report(node, path, "must be a mapping with the key 'groups'")
            return
        if node.key("apiVersion") or node.key("kind"):
            yield from self._manifest(node, path)
            return
        fields = self.fields(node, path, ("groups",), "a rule file")
        if "groups" in fields:
            yield from self._groups(fields["groups"], join(path, "groups"), _Scope())

    def _manifest(self, node: Mapping, path: str) -> Iterator[Group]:
        kind = _plain(node.value("kind"))
        if kind in _LISTS:
            items = node.value("items")
            for index, item in enumerate(self.items(items, join(path, "items")) if items else ()):
                yield from self.document(item, join(path, f"items.{index}"))
            return
        if kind != "PrometheusRule":
            self.report(
                node.value("kind") or node,
                join(path, "kind"),
                f"a manifest of kind {kind or 'nothing'!r} holds no rules; give only PrometheusRule manifests",
            )
            return
        version = _plain(node.value("apiVersion"))
        if not version.startswith("monitoring.coreos.com/"):
            self.report(
                node.value("apiVersion") or node,
                join(path, "apiVersion"),
                f"apiVersion of a PrometheusRule must be monitoring.coreos.com/v1, not {version!r}",
            )
        fields = self.fields(node, path, ("apiVersion", "kind", "metadata", "spec", "status"), "a PrometheusRule")
        scope = _Scope(manifest=self._manifest_name(node, path), group_keys=_MANIFEST_GROUP_KEYS)
        spec = fields.get("spec")
        if spec is None:
            return
        inner = self.fields(spec, join(path, "spec"), ("groups",), "spec of a PrometheusRule")
        if "groups" in inner:
            yield from self._groups(inner["groups"], join(path, "spec.groups"), scope)

    def _manifest_name(self, node: Mapping, path: str) -> str:
        metadata = node.value("metadata")
        name = namespace = ""
        if isinstance(metadata, Mapping):
            name, namespace = _plain(metadata.value("name")), _plain(metadata.value("namespace"))
        full = "/".join(filter(None, (namespace, name)))
        first = self._manifests.setdefault(full, node.line)
        if first != node.line:
            self.report(node, join(path, "metadata.name"), f"PrometheusRule {full!r} is given twice; see line {first}")
        return full

    # Groups

    def _groups(self, node: Node, path: str, scope: _Scope) -> Iterator[Group]:
        for index, item in enumerate(self.items(node, path)):
            before = len(self.problems)
            group = self._group(item, f"{path}.{index}", scope)
            if group is not None and len(self.problems) == before:
                yield group

    def _group(self, node: Node, path: str, scope: _Scope) -> Group | None:
        fields = self.fields(node, path, scope.group_keys, "a group")
        if not isinstance(node, Mapping):
            return None
        name = self.name(node, fields, path, "name", "group")
        self._check_group_twice(fields.get("name"), path, name, scope)
        # Prometheus expands the labels of a group as templates, for its alerts.
        templates = self.labels(fields.get("labels"), f"{path}.labels", self.as_template)
        labels = {key: template.text for key, template in templates.items()}
        eager = self.boolean(fields.get("eager"), f"{path}.eager")
        interval = self.duration(fields.get("interval"), f"{path}.interval")
        rules = tuple(
            rule
            for index, item in enumerate(self.items(fields["rules"], f"{path}.rules") if "rules" in fields else ())
            if (rule := self._rule(item, f"{path}.rules.{index}", labels, scope, eager=eager))
        )
        return Group(
            name=name,
            file=self.file,
            manifest=scope.manifest,
            interval_seconds=interval or self._default_interval,
            query_offset_seconds=self.duration(fields.get("query_offset"), f"{path}.query_offset"),
            limit=self.count(fields.get("limit"), f"{path}.limit"),
            labels=labels,
            rules=rules,
            eager=eager,
        )

    def _check_group_twice(self, node: Node | None, path: str, name: str, scope: _Scope) -> None:
        if node is None or not name:
            return
        if name in scope.names:
            self.report(
                node, f"{path}.name", f"group {name!r} is given twice; the first is at line {scope.names[name]}"
            )
        scope.names.setdefault(name, node.line)

    # Rules

    def _rule(self, node: Node, path: str, group_labels: dict[str, str], scope: _Scope, *, eager: bool) -> Rule | None:
        fields = self.fields(node, path, _RULE_KEYS, "a rule")
        if not isinstance(node, Mapping):
            return None
        if "anomaly" in {key.text for key, _ in node.entries}:
            return None
        if "record" in fields and "alert" in fields:
            self.report(node.key("alert") or node, path, "a rule has either 'record' or 'alert', not both")
            return None
        if "record" not in fields and "alert" not in fields:
            self.report(node, path, "a rule needs 'alert' or 'record'")
        expression = self._expression(node, fields, path)
        build = self._recording if "record" in fields else self._alert
        rule = build(node, fields, path, group_labels, expression, eager=eager)
        if rule is not None:
            self._check_rule_twice(node, path, rule, scope)
        return rule

    def _recording(
        self,
        node: Mapping,
        fields: Fields,
        path: str,
        group_labels: dict[str, str],
        expression: tuple[promql.Expr, str] | None,
        *,
        eager: bool,
    ) -> Rule | None:
        # Recording rules are never evaluated out of turn: their samples would not be evenly spaced.
        del eager
        for key in ("for", "keep_firing_for", "annotations"):
            if key in fields:
                self.report(node.key(key) or node, f"{path}.{key}", f"a recording rule has no '{key}'; remove it")
        name = self.name(node, fields, path, "record", "recording rule")
        if set(name) & set("{} \n"):
            self.report(
                fields["record"],
                f"{path}.record",
                f"not a metric name: {name!r}; labels go under 'labels', expressions under 'expr'",
            )
        labels = self.labels(fields.get("labels"), f"{path}.labels", self.as_text)
        if expression is None:
            return None
        return RecordingRule(
            record=name,
            expr=expression[0],
            text=expression[1],
            labels={**group_labels, **labels},
            position=Position(node.line, node.column),
        )

    def _alert(
        self,
        node: Mapping,
        fields: Fields,
        path: str,
        group_labels: dict[str, str],
        expression: tuple[promql.Expr, str] | None,
        *,
        eager: bool,
    ) -> Rule | None:
        name = self.name(node, fields, path, "alert", "alert") if "alert" in fields else ""
        hold = self.duration(fields.get("for"), f"{path}.for")
        keep = self.duration(fields.get("keep_firing_for"), f"{path}.keep_firing_for")
        labels = self.labels(fields.get("labels"), f"{path}.labels", self.as_template)
        annotations = self.labels(fields.get("annotations"), f"{path}.annotations", self.as_template)
        if expression is None:
            return None
        return AlertRule(
            name=name,
            expr=expression[0],
            text=expression[1],
            for_seconds=hold,
            keep_firing_for_seconds=keep,
            labels={**{key: compile_template(value) for key, value in group_labels.items()}, **labels},
            annotations=annotations,
            position=Position(node.line, node.column),
            eager=eager,
        )

    def _check_rule_twice(self, node: Mapping, path: str, rule: Rule, scope: _Scope) -> None:
        # Two recording rules may fill one series name from different expressions; two alerts may not share an identity.
        key = (rule.identity, rule.text if isinstance(rule, RecordingRule) else "")
        if key in scope.rules:
            first = scope.rules[key]
            self.report(
                node, path, f"rule {rule.name!r} is given twice with the same labels; the first is at line {first}"
            )
        scope.rules.setdefault(key, node.line)

    def _expression(self, node: Mapping, fields: Fields, path: str) -> tuple[promql.Expr, str] | None:
        at = f"{path}.expr"
        if "expr" not in fields:
            self.report(node, path, "a rule needs 'expr'")
            return None
        scalar = fields["expr"]
        text = self.text(scalar, at)
        if text is None or not isinstance(scalar, Scalar):
            return None
        try:
            expr = promql.parse(text)
        except promql.ParseError as error:
            before = text.encode("utf-8", "surrogatepass")[: error.start]
            line, column = scalar.position(len(before.decode("utf-8", "ignore")))
            self.add(line, column, at, f"PromQL: {error.reason}")
            return None
        kind = promql.kind_of(expr)
        if kind not in (promql.Kind.VECTOR, promql.Kind.SCALAR):
            self.report(scalar, at, f"a rule needs an instant vector or a scalar; this is a {kind.value}")
            return None
        return expr, text


def _plain(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""
