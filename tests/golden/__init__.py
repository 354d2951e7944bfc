"""What may never change: the words that key noise, and the releases that come of it."""
