"""The studies of the papers that this library's layers come from, a command each."""
