"""Each benchmark prints ratios against its peers in one run."""
