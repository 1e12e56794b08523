"""A store that nodes share, behind the node's own: artifacts outlive a node and a cluster there.

It is a place, not a meeting point: no daemon waits on it for another one. Whatever it does, jobs go on as without it.

    errors    what keeps a daemon with a shared store from starting
    keys      the HMAC keys that sign and verify (pure but for the file)
    sealed    one artifact or graph with its signed header, as bytes (pure)
    objects   named objects under an fsspec URL (blocking)
    breaker   when to leave a store alone that fails (pure)
    threads   blocking calls with a time limit
    writes    the queue of what is to be written
    events    what is counted, and by which closed sets
    store     the asynchronous whole

``objects``, ``writes`` and ``store`` need the libraries of the extra ``shared``, and are imported when it is used.
"""
