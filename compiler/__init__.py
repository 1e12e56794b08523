"""The rank's side, and what workers share with it: keys, serialisation, artifacts, the client, the two doors.

Imports: ``inductord.v1`` only, from below. Modules here that the daemon uses (``versions``, ``toolchain``, ``reasons``)
import no torch; everything that touches private PyTorch is in ``inductord.compiler.adapter``.
"""
