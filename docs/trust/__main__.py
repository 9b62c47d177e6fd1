"""Write docs/trust.md: `make trust`."""

from docs.trust.page import PAGE, write

if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
