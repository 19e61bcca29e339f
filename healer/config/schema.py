"""The whole configuration. Each section is described in a module of its own."""

from __future__ import annotations

from pydantic import Field

from healer.config.clusters import Cluster
from healer.config.fields import Section
from healer.config.leader import Leader
from healer.config.people import Group
from healer.config.plugged import Collectors, Notifiers, Providers
from healer.config.remedies import Name, Remedy
from healer.config.rulesources import RuleSources
from healer.config.safety import Safety
from healer.config.serving import Telemetry, Web
from healer.config.sources import KubernetesSource
from healer.config.storage import Journal, Store


class Config(Section):
    """One YAML file."""

    clusters: tuple[Cluster, ...] = Field((), description="The clusters that are watched and repaired.")
    collect: Collectors = Field(
        (), description="Where samples come from. `kubernetes` is there for every cluster without being named."
    )
    store: Store = Field(Store(), description="Where samples are kept.")
    journal: Journal = Field(Journal(), description="Where every decision is kept.")
    leader: Leader = Field(default_factory=Leader, description="Which of several replicas decides and acts.")
    rules: RuleSources = Field(
        (),
        description="Prometheus rule files, by path or pattern (`rules/*.yaml`, `**` for folders), or `pack:NAME` for rules that come with healer.",
    )
    remedies: tuple[Remedy, ...] = Field((), description="What to do when.")
    from_kubernetes: tuple[KubernetesSource, ...] = Field(
        (), description="Further remedies and rules that stand in a cluster, as ConfigMaps and PrometheusRule objects."
    )
    safety: Safety = Field(default_factory=Safety, description="The limits of the whole fleet.")
    providers: Providers = Field((), description="Who owns the machines behind nodes, by a name that steps refer to.")
    notify: Notifiers = Field(
        (), description="Who is told. Without it, `healer run` prints what happens; the console shows it in any case."
    )
    approvers: dict[Name, Group] = Field(
        {}, description="Groups of people: `slack:ID`, `console`, `cli`, or `console:NAME`, `cli:NAME`."
    )
    web: Web = Field(Web(), description="Healer's own server.")
    telemetry: Telemetry = Field(Telemetry(), description="What healer says about itself.")
