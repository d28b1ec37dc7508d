"""What may be said of blocks, loops and the regions they touch: asked by schedules and lowering."""
