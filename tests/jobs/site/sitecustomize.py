"""For ranks of tests: they collect garbage less often, which saves a tenth of the time that they import and trace."""

import gc

gc.set_threshold(50_000, 50, 100)
