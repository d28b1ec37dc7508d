"""What is measured next: spaces, decisions, strategies, the final heat."""
