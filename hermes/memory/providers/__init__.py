"""Memory providers that come with Hermes: a file each, with a function `provider(setup)`."""
