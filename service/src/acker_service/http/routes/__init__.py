"""The routes of the contract, one file per tag."""
