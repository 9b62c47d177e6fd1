"""The word count of Storm's tutorial, over HTTP, with workers that fail and die; see README.md."""
