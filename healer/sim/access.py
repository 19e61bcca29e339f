"""Who may do what: everything, except what is denied by name. Also answers access reviews."""

from __future__ import annotations

from healer.sim.api_errors import ApiError
from healer.sim.api_routes import Target
from healer.sim.objects import JSON

USER = "healer"


class Access:
    """The rules of one API server. `denied` holds (verb, resource), with `pods/eviction` for subresources and `*` for any."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()

    def allows(self, verb: str, resource: str) -> bool:
        return not any((v, r) in self.denied for v in (verb, "*") for r in (resource, "*"))

    def check(self, verb: str, at: Target) -> None:
        """403."""
        if self.allows(verb, at.resource):
            return
        where = f'in the namespace "{at.namespace}"' if at.namespace else "at the cluster scope"
        what = f'{at.kind.qualified} "{at.name}"' if at.name else at.kind.qualified
        details = {"name": at.name, "group": at.kind.group, "kind": at.kind.resource}
        raise ApiError(
            403,
            f'{what} is forbidden: User "{USER}" cannot {verb} resource "{at.resource}" in API group '
            f'"{at.kind.group}" {where}',
            details={name: value for name, value in details.items() if value},
        )

    def review(self, sent: JSON) -> JSON:
        """The answer to a SelfSubjectAccessReview."""
        attributes = (sent.get("spec") or {}).get("resourceAttributes") or {}
        resource = attributes.get("resource", "")
        if attributes.get("subresource"):
            resource += f"/{attributes['subresource']}"
        allowed = self.allows(attributes.get("verb", ""), resource)
        return {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": sent.get("spec") or {},
            "status": {"allowed": allowed} | ({} if allowed else {"reason": "denied by the simulation"}),
        }
