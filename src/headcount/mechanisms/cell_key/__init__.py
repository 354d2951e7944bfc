"""The cell key method: noise that belongs to the people in a cell, the same in every table."""
