"""`clusters:` what is watched and repaired."""

from __future__ import annotations

from pydantic import Field, model_validator

from healer.config.fields import FilePath, Flag, Section, Text
from healer.config.remedies import Name


class Cluster(Section):
    """One cluster, and how its API server is reached: by a kubeconfig, or from inside."""

    name: Name = Field(
        description="Stands in every alert, incident and metric. Unique. The same as in your Prometheus' `cluster` label."
    )
    kubeconfig: FilePath | None = Field(None, description="The kubeconfig file. Exactly one of this and `in_cluster`.")
    context: Text | None = Field(None, description="The context in the kubeconfig. Default: its current one.")
    in_cluster: Flag = Field(
        False,
        description="Use the service account of the pod in which healer runs. Exactly one of this and `kubeconfig`.",
    )

    @model_validator(mode="after")
    def _has_one_way_in(self) -> Cluster:
        if (self.kubeconfig is not None) == self.in_cluster:
            raise ValueError("give exactly one of 'kubeconfig' and 'in_cluster: true'")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("'context' belongs to a 'kubeconfig'; remove it")
        if self.kubeconfig is not None and not self.kubeconfig.is_file():
            raise ValueError(f"kubeconfig {str(self.kubeconfig)!r} does not exist; see `kubectl config view --raw`")
        return self
