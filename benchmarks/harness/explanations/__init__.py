"""Exact attributions beside other explainers: planted substructures, measured targets, texts.

``setting`` says in plain values what is trained and explained. ``networks`` trains, or takes up
what was trained; ``planted`` has molecules of which it is known which atoms make the target;
``methods`` are the explainers, ``measures`` says how good an explanation is, and ``comparison``
goes through the molecules. ``attributions`` puts contributions into the target's own units,
``sentences`` does so for a text classifier. ``study`` keeps the results folder, ``report`` makes
the table, the pictures and the page.
"""
