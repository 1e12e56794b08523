"""Why the daemon refuses a request: one type per reason, with a message for people.

No gRPC here: what decides raises these, and ``service.errors`` alone turns them into status codes.

    ServiceError
    ├── Unauthenticated     the caller does not show who it is
    ├── Denied              the caller may not do this
    ├── InvalidRequest      malformed, out of order, or not what was announced
    ├── Incompatible        another protocol or key format
    ├── OverLimit           a graph, a queue or a batch over its bound
    ├── Draining            the daemon is about to end
    ├── GaveUp              the daemon gave this request up; compile locally
    ├── NotFound            there is no such entry or job
    └── ArtifactLost        what was stored turned out to be corrupt, again and again
"""


class ServiceError(Exception):
    """Base of all refusals. ``str()`` of it says what happened and what to do."""


class Unauthenticated(ServiceError):
    """The caller does not show who it is: no token, a wrong one, or a certificate that names nobody."""


class Denied(ServiceError):
    """The caller is known and may not do this."""


class InvalidRequest(ServiceError):
    """Malformed, out of order, or not what was announced."""


class Incompatible(ServiceError):
    """The peer speaks another protocol or key format."""


class OverLimit(ServiceError):
    """Over a bound that ``Capabilities`` or the configuration sets."""


class Draining(ServiceError):
    """The daemon is about to end and takes no more requests."""


class GaveUp(ServiceError):
    """The daemon gave this request up. The client compiles locally."""


class NotFound(ServiceError):
    """There is no such entry or job."""


class ArtifactLost(ServiceError):
    """A stored artifact was found corrupt and could not be replaced within this request."""
