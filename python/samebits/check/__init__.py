"""Checks that anyone can run on their own machine: `python -m samebits.check NAME`."""
