"""Places in the configuration that name a plugin: its settings are checked by its own model.

The plugin is loaded only because it is named here. Its mistakes are reported where they stand in the file, together with
all others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, InstanceOf, ValidationError, ValidationInfo

from healer import plugins
from healer.config import context, messages
from healer.config.context import Location
from healer.errors import PluginError

NOUNS = {
    plugins.COLLECTORS: "collector",
    plugins.ACTIONS: "action",
    plugins.NOTIFIERS: "notifier",
    plugins.PROVIDERS: "provider",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plugged:
    """A plugin named in the configuration. `label`: the user's own name for it, where there can be several of a kind.

    `params` as written, `settings` as its model understood them.
    """

    name: str
    params: Mapping[str, Any] = dataclasses.field(repr=False)  # can hold secrets as written
    settings: BaseModel
    label: str = ""


def settings_model(group: str, name: str) -> type[BaseModel]:
    """What a plugin takes. PluginError when it cannot be loaded or does not say."""
    model = getattr(plugins.load(group, name), "Settings", None)
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        raise PluginError(group, name, "it has no model `Settings`; its author has to add one, empty if need be")
    return model


def _list_of(group: str) -> Callable[[Any, ValidationInfo], Any]:
    def check(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"must be a list, not {context.shown(value)}")  # noqa: TRY004 (pydantic collects ValueError)
        if group == plugins.ACTIONS and not value:
            raise ValueError("is empty; name at least one action")
        found = [_entry(group, entry, value, (index,), info) for index, entry in enumerate(value)]
        return tuple(filter(None, found))

    return check


def _map_of(group: str) -> Callable[[Any, ValidationInfo], Any]:
    def check(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping (key: value), not {context.shown(value)}")  # noqa: TRY004 (the same)
        found = [_load(group, str(name), params, value, (name,), info) for name, params in value.items()]
        return tuple(filter(None, found))

    return check


def _labelled(group: str) -> Callable[[Any, ValidationInfo], Any]:
    def check(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping (key: value), not {context.shown(value)}")  # noqa: TRY004 (the same)
        found = [_entry(group, entry, value, (label,), info, label=str(label)) for label, entry in value.items()]
        return tuple(filter(None, found))

    return check


def _entry(
    group: str, entry: Any, container: object, at: Location, info: ValidationInfo, *, label: str = ""
) -> Plugged | None:
    """`name`, or `name: {…}`."""
    if isinstance(entry, str) and entry:
        return _load(group, entry, {}, container, at, info, label=label, bare=True)
    if isinstance(entry, dict) and len(entry) == 1:
        ((name, params),) = entry.items()
        return _load(group, str(name), params, container, (*at, name), info, label=label)
    noun = NOUNS[group]
    context.report(
        info, container, at, f"must name one {noun}: `{noun}` alone, or `{noun}: {{…}}`, not {context.shown(entry)}"
    )
    return None


def _load(
    group: str,
    name: str,
    params: Any,
    container: object,
    at: Location,
    info: ValidationInfo,
    *,
    label: str = "",
    bare: bool = False,
) -> Plugged | None:
    known = plugins.names(group)
    if name not in known:
        context.report(info, container, at, context.unknown(NOUNS[group], name, known))
        return None
    if not isinstance(params, dict):
        if params is not None:  # Emptiness is reported for the whole file at one place.
            context.report(info, container, at, f"must be a mapping (key: value), not {context.shown(params)}")
        return None
    try:
        model = settings_model(group, name)
    except PluginError as error:
        context.report(info, container, at, str(error))
        return None
    try:
        return Plugged(
            name=name, params=params, settings=model.model_validate(params, context=info.context), label=label
        )
    except ValidationError as error:
        for place, message in messages.explained(error, model):
            inside = at if bare else (*at, *place)
            context.report(info, container, inside, f"{'.'.join(map(str, place))}: {message}" if bare else message)
    return None


Collectors = Annotated[
    tuple[InstanceOf[Plugged], ...],
    BeforeValidator(_list_of(plugins.COLLECTORS)),
    Field(json_schema_extra={"x-type": "list of collectors", "x-group": plugins.COLLECTORS}),
]
Steps = Annotated[
    tuple[InstanceOf[Plugged], ...],
    BeforeValidator(_list_of(plugins.ACTIONS)),
    Field(json_schema_extra={"x-type": "list of actions", "x-group": plugins.ACTIONS}),
]
Notifiers = Annotated[
    tuple[InstanceOf[Plugged], ...],
    BeforeValidator(_map_of(plugins.NOTIFIERS)),
    Field(json_schema_extra={"x-type": "notifiers by name", "x-group": plugins.NOTIFIERS}),
]
Providers = Annotated[
    tuple[InstanceOf[Plugged], ...],
    BeforeValidator(_labelled(plugins.PROVIDERS)),
    Field(json_schema_extra={"x-type": "providers by a name of your choice", "x-group": plugins.PROVIDERS}),
]
