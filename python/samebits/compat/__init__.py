"""Names that other libraries use for the same job, each a call into samebits."""
