"""What ``inductord doctor`` looks at. Each check is a function that returns its findings and changes nothing that the
daemon itself would not change when it starts.

    finding   what a check says
    software  Python, packages, entry points, variables
    machine   compiler, folders, user, limits
    service   the daemon and its pool
    shared    the store that nodes share
"""
