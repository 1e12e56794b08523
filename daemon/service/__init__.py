"""The gRPC side: servicers that translate between messages and the daemon's plain objects, and decide nothing.

errors       typed refusals to status codes, in one place
interceptor  around every RPC: decoding, refusals, metrics
stream       one Compile stream with its bounds in time
compiler     CompilerService
admin        AdminService
"""
