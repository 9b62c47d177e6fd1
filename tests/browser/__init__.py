"""The page `/ui/` in a real Chromium. Playwright runs an event loop of its own: no test here may need another."""
