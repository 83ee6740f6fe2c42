"""The cluster and its hosts: frozen, typed, validated, whatever door declared them."""
