"""Disposable hosts: real systemd machines in namespaces."""
