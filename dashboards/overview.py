"""Healer about itself: does it work, what does it do, how fast, and what holds it back. From its own metrics (docs/metrics.md)."""

from __future__ import annotations

import json
from typing import Final

from dashboards.panels import Panel, Query, dashboard

JOB: Final = 'job="$job"'


def _quantile(share: float, histogram: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket{{{JOB}}}[1h])))"


STATE: Final = (
    Panel(
        title="Replicas that lead",
        description="1 is right. 0: nothing is decided, done or told.",
        queries=(Query(expr=f"sum(healer_leader{{{JOB}}})"),),
        kind="stat",
        good=1,
        width=4,
        height=4,
    ),
    Panel(
        title="Paused by hand",
        description="While it is, no new disruption is started. `healer resume` ends it.",
        queries=(Query(expr=f"max(healer_paused{{{JOB}}})"),),
        kind="stat",
        unit="bool_yes_no",
        bad=1,
        width=4,
        height=4,
    ),
    Panel(
        title="Journal takes events",
        description="If not, Healer does nothing and answers webhooks with 503.",
        queries=(Query(expr=f"min(healer_journal_writable{{{JOB}}})"),),
        kind="stat",
        unit="bool_yes_no",
        good=1,
        width=4,
        height=4,
    ),
    Panel(
        title="Clusters not read",
        description="Those of which some replica has no complete picture.",
        queries=(Query(expr=f"count(min by (cluster) (healer_kube_synced{{{JOB}}}) == 0) or vector(0)"),),
        kind="stat",
        bad=1,
        width=4,
        height=4,
    ),
    Panel(
        title="Newest configuration runs",
        description="If not, `healer check` says what is wrong with it; the one before runs on.",
        queries=(Query(expr=f"min(healer_config_last_reload_successful{{{JOB}}})"),),
        kind="stat",
        unit="bool_yes_no",
        good=1,
        width=4,
        height=4,
    ),
    Panel(
        title="Incidents that wait for a person",
        description="Escalated, or waiting for approval: `healer incidents --open`.",
        queries=(
            Query(expr=f'max(sum by (pod) (healer_incidents_open{{{JOB},state=~"escalated|awaiting approval"}}))'),
        ),
        kind="stat",
        bad=1,
        width=4,
        height=4,
    ),
)
WORK: Final = (
    Panel(
        title="Open incidents",
        description="By state. Escalated ones wait for a person.",
        queries=(Query(expr=f"max by (state) (healer_incidents_open{{{JOB}}})", legend="{{state}}"),),
    ),
    Panel(
        title="Decisions",
        description="In an hour, inaction included. What a reason means: docs/reasons.md.",
        queries=(
            Query(
                expr=f"sum by (answer, reason) (increase(healer_decisions_total{{{JOB}}}[1h])) > 0",
                legend="{{answer}}: {{reason}}",
            ),
        ),
    ),
    Panel(
        title="What holds something back now",
        description="Guards that are closed.",
        queries=(Query(expr=f"max by (guard) (healer_guard_closed{{{JOB}}}) == 1", legend="{{guard}}"),),
    ),
    Panel(
        title="Did remedies help?",
        description="Verdicts of the last day, by remedy. One that mostly does not help: take its mode back to suggest.",
        queries=(Query(expr=f"sum by (remedy, verdict) (increase(healer_verdicts_total{{{JOB}}}[1d])) > 0"),),
        kind="table",
    ),
    Panel(
        title="From the fault to the incident",
        description="Start of the alert to its incident, over an hour.",
        queries=tuple(
            Query(expr=_quantile(share, "healer_detect_seconds"), legend=f"{share:.0%}") for share in (0.5, 0.9)
        ),
        unit="s",
    ),
    Panel(
        title="From the incident to the proof",
        description="Incident to its verified end, over an hour.",
        queries=tuple(
            Query(expr=_quantile(share, "healer_repair_seconds"), legend=f"{share:.0%}") for share in (0.5, 0.9)
        ),
        unit="s",
    ),
)
ENGINE: Final = (
    Panel(
        title="Alerts",
        description="Per second, by source. Refused ones could not be read: somebody sends something wrong.",
        queries=(
            Query(expr=f"sum by (source) (rate(healer_alerts_received_total{{{JOB}}}[5m]))", legend="{{source}}"),
            Query(
                expr=f"sum by (reason) (rate(healer_alerts_rejected_total{{{JOB}}}[5m])) > 0",
                legend="refused: {{reason}}",
            ),
        ),
    ),
    Panel(
        title="Messages to people",
        description="In an hour. Failed ones did not get through.",
        queries=(
            Query(
                expr=f"sum by (notifier, outcome) (increase(healer_notifications_total{{{JOB}}}[1h])) > 0",
                legend="{{notifier}}: {{outcome}}",
            ),
        ),
    ),
    Panel(
        title="Requests to API servers",
        description="Per second. 429 and 5xx: the API server is overloaded. 403: a permission is missing.",
        queries=(
            Query(
                expr=f"sum by (cluster, status) (rate(healer_kube_requests_total{{{JOB}}}[5m])) > 0",
                legend="{{cluster}}: {{status}}",
            ),
        ),
    ),
    Panel(
        title="Ticks left out, samples dropped",
        description="Should stay at 0: else the machine does not keep up, or memory is short.",
        queries=(
            Query(
                expr=f"sum by (worker) (increase(healer_ticks_missed_total{{{JOB}}}[5m]))", legend="ticks of {{worker}}"
            ),
            Query(expr=f"sum(increase(healer_samples_evicted_total{{{JOB}}}[5m]))", legend="samples"),
        ),
    ),
    Panel(
        title="Series in the hot window",
        description="Of the embedded store, per replica.",
        queries=(Query(expr=f"healer_store_series{{{JOB}}}", legend="{{pod}}"),),
    ),
    Panel(
        title="Scrapes that fail",
        description="Per second, by job and outcome.",
        queries=(
            Query(
                # The metric has a label `job` of its own, which Prometheus renames when it scrapes.
                expr=f'sum by (exported_job, outcome) (rate(healer_scrapes_total{{{JOB},outcome!="ok"}}[5m])) > 0',
                legend="{{exported_job}}: {{outcome}}",
            ),
        ),
    ),
)


def text() -> str:
    """The dashboard as JSON, the same for the same code."""
    made = dashboard(
        uid="healer-overview",
        title="Healer",
        description="Made by dashboards/overview.py of Healer's sources.",
        panels=(*STATE, *WORK, *ENGINE),
    )
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"
