"""Federations of models that nobody tuned the default on, as plain PyTorch loops around a server.

`tasks` has the models and their data, one small file per kind; `training` has what a client does,
`combine` what a server without scores does.
"""
