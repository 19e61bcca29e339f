"""Every metric that Healer exports about itself, declared once. docs/metrics.md is tested against this list."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY: Final = CollectorRegistry(auto_describe=True)

ALERTS_RECEIVED: Final = Counter(
    "healer_alerts_received", "Alerts that arrived.", ["source", "status"], registry=REGISTRY
)
ALERTS_REJECTED: Final = Counter(
    "healer_alerts_rejected", "Alerts that could not be taken.", ["source", "reason"], registry=REGISTRY
)
DECISIONS: Final = Counter("healer_decisions", "Decisions, inaction included.", ["answer", "reason"], registry=REGISTRY)
INCIDENTS_OPEN: Final = Gauge("healer_incidents_open", "Incidents that are not closed.", ["state"], registry=REGISTRY)
INCIDENTS_CLOSED: Final = Counter("healer_incidents_closed", "Incidents that ended.", ["reason"], registry=REGISTRY)
OPERATIONS: Final = Counter("healer_operations", "Plans carried out.", ["remedy", "outcome"], registry=REGISTRY)
VERDICTS: Final = Counter("healer_verdicts", "What verification found.", ["remedy", "verdict"], registry=REGISTRY)
DETECT_SECONDS: Final = Histogram(
    "healer_detect_seconds",
    "From the start of the alert to its incident.",
    buckets=(0.01, 0.1, 1, 5, 15, 30, 60, 120, 300, 600),
    registry=REGISTRY,
)
REPAIR_SECONDS: Final = Histogram(
    "healer_repair_seconds",
    "From the incident to its verified end.",
    buckets=(1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
GUARD_CLOSED: Final = Gauge(
    "healer_guard_closed", "1 while a guard holds something back.", ["guard"], registry=REGISTRY
)
PAUSED: Final = Gauge("healer_paused", "1 while every new disruption is stopped by hand.", registry=REGISTRY)
LEADER: Final = Gauge(
    "healer_leader", "1 while this replica decides and acts; one alone always does.", registry=REGISTRY
)
JOURNAL_EVENTS: Final = Counter("healer_journal_events", "Events written to the journal.", ["kind"], registry=REGISTRY)
JOURNAL_FAILURES: Final = Counter("healer_journal_failures", "Writes to the journal that failed.", registry=REGISTRY)
JOURNAL_WRITABLE: Final = Gauge("healer_journal_writable", "1 while the journal takes events.", registry=REGISTRY)
SAMPLES_APPENDED: Final = Counter("healer_samples_appended", "Samples kept.", registry=REGISTRY)
SAMPLES_REJECTED: Final = Counter("healer_samples_rejected", "Samples not kept.", ["reason"], registry=REGISTRY)
STORE_SERIES: Final = Gauge("healer_store_series", "Series in the hot window of the embedded store.", registry=REGISTRY)
SAMPLES_EVICTED: Final = Counter(
    "healer_samples_evicted", "Samples dropped before their time, for want of memory.", registry=REGISTRY
)
STORE_DAMAGE: Final = Counter(
    "healer_store_damage", "Damaged places left out when the store was read back.", registry=REGISTRY
)
SCRAPES: Final = Counter("healer_scrapes", "Scrapes of targets.", ["job", "outcome"], registry=REGISTRY)
RULE_EVALUATIONS: Final = Counter("healer_rule_evaluations", "Evaluations of rules.", ["group"], registry=REGISTRY)
RULE_FAILURES: Final = Counter(
    "healer_rule_failures", "Evaluations of rules that failed.", ["group"], registry=REGISTRY
)
RULE_SECONDS: Final = Histogram("healer_rule_group_seconds", "Time to evaluate a group.", registry=REGISTRY)
TICKS_MISSED: Final = Counter(
    "healer_ticks_missed", "Ticks that came too late and were left out.", ["worker"], registry=REGISTRY
)
KUBE_REQUESTS: Final = Counter(
    "healer_kube_requests", "Requests to API servers.", ["cluster", "method", "status"], registry=REGISTRY
)
KUBE_WATCH_RESTARTS: Final = Counter(
    "healer_kube_watch_restarts", "Watches begun anew.", ["cluster", "kind", "reason"], registry=REGISTRY
)
KUBE_SYNCED: Final = Gauge("healer_kube_synced", "1 when every cache has been filled.", ["cluster"], registry=REGISTRY)
NOTIFICATIONS: Final = Counter(
    "healer_notifications", "Messages to people.", ["notifier", "outcome"], registry=REGISTRY
)
CONFIG_OK: Final = Gauge(
    "healer_config_last_reload_successful", "1 when the newest configuration is the one that runs.", registry=REGISTRY
)
CONFIG_OBJECTS: Final = Gauge(
    "healer_config_objects",
    "Objects in clusters that remedies and rules are taken from, by state (taken, refused).",
    ["state"],
    registry=REGISTRY,
)
CONFIG_TIME: Final = Gauge(
    "healer_config_last_reload_success_timestamp_seconds",
    "When the running configuration was loaded.",
    registry=REGISTRY,
)
HTTP_REQUESTS: Final = Counter(
    "healer_http_requests", "Requests to Healer's own server.", ["route", "status"], registry=REGISTRY
)
