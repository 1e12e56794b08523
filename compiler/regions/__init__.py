"""Repeated regions of a Dynamo graph: where it is cut, so that each distinct piece is compiled once."""
