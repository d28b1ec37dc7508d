"""What a schedule will cost before it is measured: features, learned and analytic models."""
