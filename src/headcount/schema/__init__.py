"""What is known of each person: attributes, recodes, cells, structural zeros."""

from headcount.schema.attribute import Attribute
from headcount.schema.follows import Follows
from headcount.schema.load import load_schema, shipped
from headcount.schema.recode import Recode
from headcount.schema.schema import Schema, impossible

__all__ = ["Attribute", "Follows", "Recode", "Schema", "impossible", "load_schema", "shipped"]
