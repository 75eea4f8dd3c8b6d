"""Print the folder."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.stdout.write(f"{Path(__file__).parent / 'folder'}\n")
