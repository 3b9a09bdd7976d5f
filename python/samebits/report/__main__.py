import sys

from samebits.report.cli import main

sys.exit(main())
