"""What the daemon measures, and how Prometheus gets it. It observes and never decides.

families   every metric, its help, its labels and their closed sets
shared     those of the shared store
live       gauges that are read from the daemon at each scrape
exporter   the HTTP endpoint
table      the table in the documentation, made from the families
"""
