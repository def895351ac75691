"""The results folders of the molecule benchmark, gathered into one report.

``folders`` finds and reads them, ``settings`` says in what their runs differ, ``sections`` puts
runs of the same molecules and split together, ``comparison`` is a section's table and its marks,
``predictions`` and ``pictures`` draw, ``provenance`` says where numbers come from. ``contents`` is
what a report says, ``markdown`` and ``page`` are its two forms, ``report`` writes them.
"""
