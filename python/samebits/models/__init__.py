"""Operators of particular models: shapes, dtype and contract are fixed, and anything else is refused."""
