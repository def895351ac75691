"""Prediction of molecules' properties: networks and kernel methods on one split, one table.

``command_line`` reads the arguments (``ogb_sets`` repeats names of sets), ``data`` chooses
molecules and split, ``targets`` checks that there is something to learn, ``batches`` is what a
network reads at once, ``models`` builds the networks (``networks`` those of PyG) from a
``model_config``, ``learner`` is what trains them, as ``regressor`` or as ``classifier``,
``baselines`` are the kernel methods beside them (``subtree_ridge``, ``walk_process``, on
``labels``), ``task`` is all this for the harness, ``report`` makes the table and the pictures
(``score_curves`` those of classes), ``prediction`` applies a checkpoint to new molecules, with the
features that ``featurizers`` finds again, ``gathering`` makes one report of many results folders.
"""
