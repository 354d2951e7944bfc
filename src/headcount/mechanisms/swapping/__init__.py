"""Record swapping: people or whole households change places with others elsewhere."""
