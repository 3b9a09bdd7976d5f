import sys

from samebits.check.cli import main

sys.exit(main())
