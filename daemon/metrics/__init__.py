"""What the daemon measures, and how Prometheus gets it. It observes and never decides.

families     what counts as things happen in the daemon: names, helps, labels and their closed sets
ranks        what counts as ranks report
shared       what counts of the shared store
job_labels   which jobs have a label of their own
live         gauges that are read from the daemon at each scrape
job_gauges   those of them that are by job
buckets      bounds of histograms
exemplars    which key and job an observation belongs to
exporter     the HTTP endpoint
table        the table in the documentation, made from the families
"""
