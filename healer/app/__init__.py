"""The composition root: the only place that knows everybody. `prepare` reads, `assemble` builds, `service` runs."""

from healer.app.assemble import Adapters, assembled
from healer.app.prepare import Prepared, prepare, prepare_text
from healer.app.service import Service

__all__ = ["Adapters", "Prepared", "Service", "assembled", "prepare", "prepare_text"]
