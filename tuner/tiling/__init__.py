"""What the rules are made of: register tiles, packed panels, blocks for caches, lanes, threads."""
