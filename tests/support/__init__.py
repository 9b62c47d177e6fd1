"""What tests share: real servers, a driven clock, waiting without sleeping."""
