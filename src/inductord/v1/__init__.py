"""Generated from ``protos/inductord/v1``; do not edit. ``make protos`` makes them anew."""
