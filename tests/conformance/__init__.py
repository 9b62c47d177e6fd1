"""What every client has to do, as data: vectors and scenarios, played by a driver program of each language."""
