import sys

from samebits.demo.cli import main

sys.exit(main())
