"""Who may speak to the daemon over TCP, and as whom. No gRPC servicers and no decisions about graphs.

refusals      why a call is refused, a closed set
files         what is read from files and read anew when they change
tokens        tokens by digest, and the tenants that they name
certificates  what the daemon shows of itself, and whose certificates it takes
gate          from a call to its caller
listener      all of it together, from the settings
"""
