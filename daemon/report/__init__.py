"""What happened in a job, for people: as text, as JSON, as a page to look at, as a trace for a trace viewer.

totals   sums over the ranks, from their files and the daemon's account
gather   a whole report: from the daemon, or at the end of ``inductord run``
facts    per graph and per rank: who waited for whom, and how long
scale    time to place on the page; long quiet times are drawn short
lanes    what each rank and worker did, as marks on that scale
bins     how much of something there is over the width of the page
crowd    the same for more ranks than anybody can look at
page     the page
trace    events for Perfetto and Chrome
text     some lines for a terminal
"""
