"""From a candidate to its times: builders, runners, here or elsewhere, what results must be."""
