"""Papers' figures drawn again: runs, panels, and the published sentences, judged."""
