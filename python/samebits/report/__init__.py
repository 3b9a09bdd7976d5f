"""The acceptance of samebits as one report that anyone can make and check: `python -m samebits.report`."""
