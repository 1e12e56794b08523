"""Why a call is refused. What a TLS handshake refuses never becomes a call, so it is not among them."""

import enum


class AuthFailure(enum.StrEnum):
    """Values are stable: they are metric labels."""

    # No token was shown and one is needed.
    NO_TOKEN = "no_token"
    # The token is in nobody's name.
    WRONG_TOKEN = "wrong_token"
    # The client's certificate is sound and names no tenant.
    NO_TENANT = "no_tenant"
    # A tenant asked for what is the owner's.
    PERMISSION = "permission"
