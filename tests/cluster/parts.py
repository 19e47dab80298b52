"""What runs on a host: one node with all roles, or one for each."""

import dataclasses

from network import address

ROLES = ("manager", "target", "gateway")
# S3, admin and cluster of what serves S3; what does not is so much further up.
S3, ADMIN, CLUSTER = 9000, 9001, 9002
FURTHER = {"": 0, "gateway": 0, "manager": 100, "target": 200}


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    """A process."""

    host: int
    # Empty: all of them.
    role: str = ""

    @property
    def name(self):
        return f"n{self.host + 1}" + (f"-{self.role}" if self.role else "")

    @property
    def roles(self):
        return self.role or ",".join(ROLES)

    def has(self, role):
        return self.role in ("", role)

    def at(self, port):
        return f"{address(self.host)}:{port + FURTHER[self.role]}"


def of_host(host, is_apart):
    return [Part(host, role) for role in (ROLES if is_apart else ("",))]


def named(name):
    """The part of this name."""
    host, _, role = name.partition("-")
    return Part(int(host[1:]) - 1, role)
