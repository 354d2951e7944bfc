"""Settings that others have used."""
