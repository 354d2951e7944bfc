"""What is known of each person: attributes, recodes, cells, structural zeros."""

from headcount.schema.load import load_schema, shipped
from headcount.schema.schema import Attribute, Follows, Recode, Schema, impossible

__all__ = ["Attribute", "Follows", "Recode", "Schema", "impossible", "load_schema", "shipped"]
