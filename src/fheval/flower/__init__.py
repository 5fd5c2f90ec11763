"""Rounds over Flower: the only place that imports `flwr`. See README.md."""

# What a SuperNode's configuration calls the path of the vault's socket. It stands here because the shim, which the
# aggregator's code may replace, must not load the module that starts SuperNodes.
VAULT_SOCKET = "vault"
