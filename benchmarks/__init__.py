"""Side-by-side measurements against peers, as ratios of times taken in the same run."""
