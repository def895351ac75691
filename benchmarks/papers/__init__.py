"""The studies of the papers that this library's layers come from, one command for each."""
