import aliased  # noqa: F401 - so that programs which a test starts have it too
