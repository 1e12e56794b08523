"""Tenants: whose keys are whose. Pure.

Everybody who comes through the Unix socket is the owner, whose name is empty. Within the daemon a key is scoped: that of a
tenant carries the tenant's name before a slash, that of the owner is the bare key. Scoping is injective, because a key
holds no slash and neither does a name. Single-flight, store, graphs and remembered failures take keys as they come, so
what has different scopes never meets there. Only the service's edge and what leaves the daemon look inside.
"""

import dataclasses
import re

OWNER = ""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_SHORT = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call. ``local``: through the Unix socket, so as the daemon's owner, who may administrate it."""

    tenant: str
    local: bool


LOCAL = Caller(OWNER, local=True)


def is_tenant(name: str) -> bool:
    """Whether ``name`` may name a tenant: 1 to 128 letters, digits and ``._:-``, the first a letter or digit. So it is
    harmless in keys, logs, and names of files and objects."""
    return bool(_NAME.fullmatch(name))


def scoped(tenant: str, key: str) -> str:
    """The key (or a beginning of it) as the daemon's parts know it."""
    return f"{tenant}/{key}" if tenant else key


def split(scoped_key: str) -> tuple[str, str]:
    """Tenant and key of a scoped key."""
    tenant, _, key = scoped_key.rpartition("/")
    return tenant, key


def short(scoped_key: str) -> str:
    """A scoped key for people: the tenant and the first digits."""
    tenant, key = split(scoped_key)
    return scoped(tenant, key[:_SHORT])
