"""Commands as another user, when the tests run as root."""

from collections.abc import Sequence

# Such a user may read what is hidden from others, such as a checkout in root's home; it may write nothing more.
_READS = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")


def as_user(user: int, command: Sequence[str], group: int | None = None) -> list[str]:
    """``command`` as the user ``user``, whose own group has the same number; in no other group but ``group``."""
    groups = ("--clear-groups",) if group is None else ("--groups", str(group))
    return ["setpriv", "--reuid", str(user), "--regid", str(user), *groups, *_READS, *command]
