import sys

from samebits.bench.cli import main

sys.exit(main())
