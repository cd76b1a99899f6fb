"""Public names of `dpaudit.algorithms.environments.online_users`."""

from dpaudit.algorithms.environments.online_users import constant_user, online_users

__all__ = ["constant_user", "online_users"]
