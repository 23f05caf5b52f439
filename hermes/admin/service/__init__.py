"""Install, start, watch and stop the gateway as a service of this machine."""
