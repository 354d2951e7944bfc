"""Files as offices hand them out: what they are, and what stands in them.

``sheets`` is the door for whoever looks at a file; ``whole`` reads one sheet for a population.
"""
