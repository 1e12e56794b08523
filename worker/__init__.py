"""Pools of workers and what runs in a worker. ``pool`` is the protocol; the daemon knows pools through it alone.

Nothing here but the worker process itself imports torch; nothing but ``ray_pool`` imports ray.
"""
