"""Models of molecules, one table: models x seeds x splits x data sets (minutes on chembl)."""
