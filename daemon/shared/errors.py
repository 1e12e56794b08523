"""What keeps a daemon with a shared store from starting.

SharedStoreUnusable
└ KeysUnusable       the file of keys cannot be used
"""


class SharedStoreUnusable(Exception):
    """The shared store cannot be used as it is configured. The message says why and what to do, and holds no secret."""


class KeysUnusable(SharedStoreUnusable):
    """The file of keys cannot be used. The message holds no key."""
