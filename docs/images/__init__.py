"""The drawings of the documentation, as SVG, and the programs that make them: ``python -m docs.images``."""
